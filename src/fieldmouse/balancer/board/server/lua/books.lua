-- What all adds up to, and who is here.
--
-- m:KINDS is the hash `kinds`. Returns seen, settled, hosts, begun, age, over, calm, run; kinds and counts; and of
-- each agent its name, incarnation, whether it is alive, drains, its advert, how long ago it was heard, its hosts.
local function books()
  local known = call('HMGET', meta, 'seen', 'settled', 'hosts', 'begun', 'founded', 'over')
  local agents = {}
  for _, agent in ipairs(call('SMEMBERS', P .. 'agents')) do
    local its = call('HMGET', P .. 'agent:' .. agent, 'inc', 'counts', 'deadline', 'draining', 'advert', 'seen')
    local alive = its[2] == '1' and tonumber(its[3]) >= now
    agents[#agents + 1] = {
      agent, its[1], alive and 1 or 0, its[4] == '1' and 1 or 0, its[5] or '', now - tonumber(its[6]),
      call('HLEN', P .. 'held:' .. its[1] .. ':' .. agent),
    }
  end
  local sums = {
    tonumber(known[1]), tonumber(known[2]), tonumber(known[3]), known[4] == '1' and 1 or 0,
    now - tonumber(known[5]), known[6] or '', math.max(0, calm - now), RUN,
  }
  return { sums, call('HGETALL', P .. 'kinds'), agents }
end
