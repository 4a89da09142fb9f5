-- uses: begin heard
-- A crawl that is older than the directories of its agents is to be made again.
--
-- ARGV: number of signs of life, and for each: agent, incarnation, number of the sign
-- hidden  has `clearing` until all that the old one had is gone: whoever makes the crawl again clears that first
-- Promise: unless all of them were heard the crawl can be seen no longer, in one act. Returns whether that is so; the
-- names of agents instead, if some of them were heard of since this server runs and count still.
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
