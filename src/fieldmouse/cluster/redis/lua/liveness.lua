-- Liveness: waiting URLs that cannot be granted to any agent.
--
-- Every waiting URL is in the queue of a host that an agent can lease, or owed by a start of an agent that is active or
-- whose leases are being released. Three faults break this: a host is in the queue of an agent that left (older
-- versions did that); a host or URLs are held by a fenced start that is not in `dead`; a host has waiting URLs, no
-- holder, and is in no queue. The first two are found by looking at agents, the last by reading every host, which is
-- done only while nothing else can be granted.
--
-- meta.checked   time of the last repair; meta.scan: cursor for reading all hosts, `0` at the beginning
-- meta.repaired  number of repaired hosts

-- Hosts that a start of an agent holds or owes URLs of.
local function hosts_of(id)
  local found = {}
  for _, host in ipairs(call('HKEYS', P .. 'held:' .. id)) do found[host] = true end
  for _, owed in ipairs(call('HVALS', P .. 'owe:' .. id)) do
    local host = string.match(owed, '^%d+ %-?%d+ (.*)$')
    if host then found[host] = true end
  end
  local names = {}
  for host in pairs(found) do names[#names + 1] = host end
  return names
end

-- Calls `queue(agent)` for each queue, and `lease(id, hosts)` for each start, that can never be granted from.
local function each_stray(queue, lease)
  for _, agent in ipairs(call('SMEMBERS', P .. 'left')) do
    if call('ZCARD', P .. 'r:' .. agent) > 0 and call('SISMEMBER', P .. 'moving', agent) == 0 then queue(agent) end
  end
  for _, id in ipairs(call('ZRANGE', P .. 'fallen', 0, -1)) do
    if call('SISMEMBER', P .. 'dead', id) == 0 and (call('EXISTS', P .. 'held:' .. id, P .. 'owe:' .. id) > 0) then
      lease(id, hosts_of(id))
    end
  end
end

-- Whether URLs wait though no agent holds any, no host is in a queue, and nothing is being released.
local function is_idle()
  local known = call('HMGET', meta, 'seen', 'settled')
  if sane(known[1], 0) <= sane(known[2], 0) then return false end
  if call('EXISTS', P .. 'r:', P .. 'dead', P .. 'moving') > 0 then return false end
  for _, agent in ipairs(call('ZRANGE', P .. 'names', 0, -1)) do
    local id = (fields(P .. 'agent:' .. agent, 'inc')[1] or '') .. ':' .. agent
    if call('EXISTS', P .. 'r:' .. agent, P .. 'held:' .. id, P .. 'owe:' .. id) > 0 then return false end
  end
  return true
end

-- Reads some of the hosts. Returns the next cursor, `0` at the end, and hosts that have waiting URLs, no holder, and
-- are in no queue of a present agent.
local function unqueued(cursor)
  local step, found, first = call('SCAN', cursor, 'MATCH', P .. 'h:*', 'COUNT', 10000), {}, #P + 3
  for _, name in ipairs(step[2]) do
    local host = string.sub(name, first)
    local its = fields(name, 'n', 'by', 'p')
    if sane(its[1], 0) > 0 and not its[2] then
      local place = its[3] or ''
      local here = place == '' or call('ZSCORE', P .. 'names', place) or call('SISMEMBER', P .. 'moving', place) == 1
      if not (here and call('ZSCORE', P .. 'r:' .. place, host)) then found[#found + 1] = host end
    end
  end
  return step[1], found
end
