-- Signs of life, by which an agent knows a server that was given an old copy of its data.
--
-- heard     by agent the last that was heard, `INCARNATION NUMBER` (hash)
-- restored  see `restore`: of such a start of an agent everything is there

-- Whether such a sign of life, or a later one of that agent, was ever heard; of nobody it always was.
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
