-- Agents: which start of an agent is active, and release of what fenced starts held.
--
-- agent:AGENT  inc, counts, deadline, seen, advert, draining of its newest start, pages reserved for it; heard: it was
--              told to drain (hash)
-- meta.reserved  the pages reserved for all agents together
-- names        agents that did not leave, by name (sorted set); live: active agents, by deadline (sorted set)
-- fallen       `INCARNATION:AGENT` of all fenced starts, by the end of their lease (sorted set)
-- dead         fenced starts whose leases are not all released (set)
-- moving       agents whose waiting hosts are to wait for any agent (set)

local function id_of(agent, incarnation) return incarnation .. ':' .. agent end

-- nil if this start of an agent is active; otherwise the error for it.
local function refusal(agent, incarnation)
  local known = fields(P .. 'agent:' .. agent, 'inc', 'counts')
  if known[1] == incarnation and known[2] == '1' then return nil end
  if known[1] and sane(known[1], 0) > sane(incarnation, 0) then
    return redis.error_reply('NEWER another start of it counts')
  end
  return redis.error_reply('FENCED it does not count')
end

-- Sets the number of pages that an agent may have in flight or unacknowledged.
local function reserve(agent, pages)
  local name = P .. 'agent:' .. agent
  local before = sane(fields(name, 'pages')[1], 0)
  if pages == before then return end
  call('HSET', name, 'pages', pages)
  add(meta, 'reserved', pages - before)
end

-- Fences a start of an agent; its leases are released later, a part at a time.
local function fence(agent, incarnation, deadline, moves)
  local id = id_of(agent, incarnation)
  call('HSET', P .. 'agent:' .. agent, 'counts', '0')
  reserve(agent, 0)
  call('ZREM', P .. 'live', agent)
  call('ZADD', P .. 'fallen', sane(deadline, now), id)
  call('SADD', P .. 'dead', id)
  if moves then
    call('SADD', P .. 'moving', agent)
    call('UNLINK', P .. 'w:' .. agent)
  end
end

local function fence_overdue(but)
  for _, agent in ipairs(call('ZRANGEBYSCORE', P .. 'live', '-inf', '(' .. string.format('%.0f', now))) do
    if agent ~= but then
      local known = fields(P .. 'agent:' .. agent, 'inc', 'deadline')
      if known[1] then
        fence(agent, known[1], known[2], true)
      else -- it has no record
        call('ZREM', P .. 'live', agent)
      end
    end
  end
end

local function sweep_one(id, budget)
  local deadline = sane(call('ZSCORE', P .. 'fallen', id), now)
  local held = call('HRANDFIELD', P .. 'held:' .. id, budget, 'WITHVALUES')
  for i = 1, #held, 2 do
    release(id, held[i], held[i + 1], {})
    local delay = sane(fields(P .. 'h:' .. held[i], 'd')[1], 0)
    free(id, held[i], '', deadline + delay)
    budget = budget - 1
  end
  if budget <= 0 then return 0 end
  local owed = call('HRANDFIELD', P .. 'owe:' .. id, budget, 'WITHVALUES')
  for i = 1, #owed, 2 do
    local host = string.match(owed[i + 1], '^%d+ %-?%d+ (.*)$')
    if host then
      release(id, host, owed[i], {})
    else
      set_aside(id, 'owe', 'it names no host', owed[i + 1])
      settle_damaged(call('SCARD', P .. 'k:' .. owed[i]))
      call('UNLINK', P .. 'k:' .. owed[i], P .. 'o:' .. owed[i])
      call('HDEL', P .. 'owe:' .. id, owed[i])
    end
    budget = budget - 1
  end
  if budget > 0 then call('SREM', P .. 'dead', id) end
  return budget
end

-- Releases what fenced agents held, at most `budget` leases and waiting hosts at once. Returns whether all is released.
local function sweep(budget)
  for _, id in ipairs(call('SMEMBERS', P .. 'dead')) do
    budget = sweep_one(id, budget)
    if budget <= 0 then return 0 end
  end
  for _, agent in ipairs(call('SMEMBERS', P .. 'moving')) do
    local hosts = call('ZPOPMIN', P .. 'r:' .. agent, budget)
    for i = 1, #hosts, 2 do
      call('HSET', P .. 'h:' .. hosts[i], 'p', '')
      call('ZADD', P .. 'r:', hosts[i + 1], hosts[i])
      budget = budget - 1
    end
    if budget <= 0 then return 0 end
    call('SREM', P .. 'moving', agent)
  end
  return 1
end

local function extend(agent, lease)
  local name = P .. 'agent:' .. agent
  local deadline = math.max(now + lease, math.min(sane(call('HGET', name, 'deadline'), 0), now + 86400000))
  call('HSET', name, 'deadline', deadline, 'seen', now)
  call('ZADD', P .. 'live', deadline, agent)
  if lease > sane(call('HGET', meta, 'longest'), 0) then call('HSET', meta, 'longest', lease) end
end
