-- uses: begin heard
-- Hide a crawl that is older than the directories of its agents, so that it can be rebuilt.
--
-- ARGV: number of heartbeats, and for each: agent, incarnation, number of the heartbeat
-- hidden  has `clearing` until all data of the old crawl is deleted: a rebuild deletes it first
-- Promise: unless all of them are known the crawl becomes invisible, atomically. Returns whether it did; instead the
-- names of active agents that called since this server started, if there are any.
local awake, since = {}, sane(call('HGET', meta, 'since'), 0)
for _, agent in ipairs(call('ZRANGEBYSCORE', P .. 'live', string.format('%.0f', now), '+inf')) do
  if sane(fields(P .. 'agent:' .. agent, 'seen')[1], 0) > since then awake[#awake + 1] = agent end
end
for _ = 1, number() do
  local agent, incarnation, count = arg(), arg(), number()
  if not has_heard(agent, incarnation, count) then
    if #awake > 0 then return awake end
    call('HSET', P .. 'hidden', 'clearing', '1')
    call('DEL', meta)
    return 1
  end
end
return 0
