-- Heartbeats, by which an agent detects a server that was given an old copy of its data.
--
-- heard     last heartbeat by agent, `INCARNATION NUMBER` (hash)
-- restored  see `restore`: all data of such a start of an agent is there

-- Whether this heartbeat, or a later one of the agent, was received; always true for the agent ''.
local function has_heard(agent, incarnation, count)
  if agent == '' then return true end
  incarnation = tonumber(incarnation)
  local start, last = string.match(call('HGET', P .. 'heard', agent) or '0 0', '^(%d+) (%d+)$')
  start, last = sane(start, 0), sane(last, 0)
  if start > incarnation or (start == incarnation and last >= count) then return true end
  return sane(call('HGET', P .. 'restored', agent), 0) >= incarnation
end

local function hear(agent, incarnation, count)
  if not has_heard(agent, incarnation, count) then call('HSET', P .. 'heard', agent, incarnation .. ' ' .. count) end
end

local function unheard(agent) return redis.error_reply('OLDER ' .. agent) end
