-- uses: begin rows hosts agents grant liveness
-- Lease hosts to an agent that has idle fetch workers.
--
-- ARGV: agent, incarnation, hosts, urls, soon
-- Promise: from now on the caller alone holds each host, under an epoch that is never granted again, and owes about
-- `urls` of its URLs. The order: hosts that it wished for, which may have no URL; hosts placed at it; hosts placed at no
-- agent; hosts that waited too long for another agent and do not exclude it. An agent that wished for a held host gets
-- it next.
-- Nothing is granted while the coordinator is calm, to an agent whose lease is over, and to one that drains.
-- If there is nothing to grant, hosts that could not be granted to any agent are repaired.
-- Returns the grants, and whether all leases of fenced agents are released.
local agent, incarnation, wanted, urls, soon = arg(), arg(), number(), number(), number()
local no = refusal(agent, incarnation)
if no then return no end
fence_overdue(agent)
local swept = sweep(64)
local known = fields(P .. 'agent:' .. agent, 'deadline', 'draining')
if now < calm or now > sane(known[1], 0) or known[2] == '1' then return { {}, swept } end

local id, grants = id_of(agent, incarnation), {}
local wishes = P .. 'w:' .. agent
-- Limits the bytes of one answer: the agent asks again for more.
local function full() return #grants >= wanted or sent > 4194304 end
local function hold(host, place)
  if not is_host(host) then
    call('ZREM', P .. 'r:' .. place, host)
    call('ZREM', wishes, host)
    set_host_aside(host, 'it is no host')
    return
  end
  local name, epoch = P .. 'h:' .. host, call('HINCRBY', meta, 'epoch', 1)
  fields(name, 'n') -- it is a hash, or gone
  call('ZREM', P .. 'r:' .. place, host)
  call('ZREM', wishes, host)
  call('HSET', name, 'by', id, 'e', epoch, 'p', '')
  call('HSET', P .. 'held:' .. id, host, epoch)
  grants[#grants + 1] = grant(id, host, epoch, urls)
end
local function shuns(host)
  local known = fields(P .. 'h:' .. host, 'no')[1]
  local _, last = string.find(known or '', '\n' .. agent .. '\n', 1, true)
  return last and now < sane(string.match(known, '^%d+', last + 1), 0)
end
local function from(whose, latest)
  if full() then return end
  local ready = P .. 'r:' .. whose
  local others = whose ~= '' and whose ~= agent
  local most = wanted - #grants + (others and 64 or 0) -- some of them may exclude us
  for _, host in ipairs(call('ZRANGEBYSCORE', ready, '-inf', latest, 'LIMIT', 0, most)) do
    if not full() and not (others and shuns(host)) then hold(host, whose) end
  end
end
for _, host in ipairs(call('ZRANGEBYSCORE', wishes, '-inf', now, 'LIMIT', 0, 64)) do
  local its = fields(P .. 'h:' .. host, 'by', 'nb', 'w', 'p', 'wu')
  local rested, other = sane(its[2], 0) - soon, next_of(host, its[3])
  if its[1] or (other ~= '' and other ~= agent and now < sane(its[5], 0)) then
    if other == '' then call('HSET', P .. 'h:' .. host, 'w', agent) end
    call('ZADD', wishes, now + 1000, host)
  elseif rested > now then
    call('ZADD', wishes, rested, host)
  elseif not full() then
    hold(host, its[4] or '')
  end
end

-- Repairs hosts that could not be granted; returns whether there were any. Tried every 5 seconds.
local function repair()
  local known = call('HMGET', meta, 'checked', 'scan')
  local cursor, repaired = string.match(known[2] or '', '^%d+$') or '0', 0
  if cursor == '0' and now < sane(known[1], 0) + 5000 then return false end
  each_stray(
    function(left)
      repaired = repaired + call('ZCARD', P .. 'r:' .. left)
      call('SADD', P .. 'moving', left)
    end,
    function(start, hosts)
      repaired = repaired + #hosts
      call('SADD', P .. 'dead', start)
    end)
  if repaired > 0 then
    cursor, swept = '0', sweep(64)
  elseif cursor ~= '0' or is_idle() then
    local hosts
    cursor, hosts = unqueued(cursor)
    for _, host in ipairs(hosts) do stand(host, unpack(fields(P .. 'h:' .. host, 'p', 'nb'))) end
    repaired = #hosts
  end
  call('HSET', meta, 'checked', now, 'scan', cursor)
  if repaired > 0 then add(meta, 'repaired', repaired) end
  return repaired > 0
end

from(agent, now + soon)
from('', now + soon)
if not full() then
  local patience = now - sane(call('HGET', meta, 'longest'), 0)
  for _, other in ipairs(call('ZRANDMEMBER', P .. 'names', 8)) do
    if other ~= agent then from(other, patience) end
  end
end
if #grants == 0 and wanted > 0 and repair() then from('', now + soon) end
return { grants, swept }
