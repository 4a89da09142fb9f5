-- Totals of the crawl and the list of agents.

-- Agents to list in a heartbeat reply, the number of members, and the last agent listed: all of them (and `` for the
-- last) if they are at most `most`, else the caller and the next `most` after `after` by name, starting over at the end.
local function whose_turn(caller, after, most)
  local members = call('ZCARD', P .. 'names')
  if members <= most then return call('ZRANGE', P .. 'names', 0, -1), members, '' end
  local told = call('ZRANGEBYLEX', P .. 'names', '(' .. after, '+', 'LIMIT', 0, most)
  if #told < most then
    for _, agent in ipairs(call('ZRANGE', P .. 'names', 0, most - #told - 1)) do told[#told + 1] = agent end
  end
  local upto, has_caller = told[most], false
  for _, agent in ipairs(told) do has_caller = has_caller or agent == caller end
  if not has_caller then told[most + 1] = caller end
  return told, members, upto
end

-- Returns seen, settled, hosts, begun, age, over, calm, run, number of quarantined values; kinds and counts; and for
-- each listed agent its name, incarnation, whether it is alive, whether it drains, its advert, the time since its last
-- heartbeat, and its number of hosts.
local function books(told)
  local known = call('HMGET', meta, 'seen', 'settled', 'hosts', 'begun', 'founded', 'over', 'quarantined')
  local agents = {}
  for _, agent in ipairs(told) do
    local its = fields(P .. 'agent:' .. agent, 'inc', 'counts', 'deadline', 'draining', 'advert', 'seen')
    local alive = its[2] == '1' and sane(its[3], 0) >= now
    local advert = its[5] or ''
    if #advert > 16384 then
      set_aside(agent, 'advert', 'it is too long', advert)
      call('HDEL', P .. 'agent:' .. agent, 'advert')
      advert = ''
    end
    if its[1] then
      agents[#agents + 1] = {
        agent, its[1], alive and 1 or 0, its[4] == '1' and 1 or 0, advert, now - sane(its[6], now),
        call('HLEN', P .. 'held:' .. its[1] .. ':' .. agent),
      }
    else -- it has no record
      call('ZREM', P .. 'names', agent)
    end
  end
  local sums = {
    sane(known[1], 0), sane(known[2], 0), sane(known[3], 0), known[4] == '1' and 1 or 0,
    math.max(0, wall + sane(begun[2], 0) - sane(known[5], wall)), known[6] or '', math.max(0, calm - now), RUN,
    sane(known[7], 0),
  }
  local kinds = redis.pcall('HGETALL', P .. 'kinds')
  return { sums, kinds.err and {} or kinds, agents }
end
