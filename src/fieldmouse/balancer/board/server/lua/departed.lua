-- uses: begin
-- Who is no longer among the agents, and has booked what would have to be fetched again without its disk.
--
-- ARGV: nothing
-- left  agents that left or were forgotten, or whose outcomes were restored, and that did not join since (set)
-- Returns of each what `books` returns of an agent.
local left = {}
for _, agent in ipairs(call('SMEMBERS', P .. 'left')) do
  if call('EXISTS', P .. 'kept:' .. agent) == 1 then
    local its = fields(P .. 'agent:' .. agent, 'inc', 'advert', 'seen')
    local advert = string.sub(its[2] or '', 1, 16384)
    left[#left + 1] = { agent, its[1] or '0', 0, 0, advert, its[3] and now - sane(its[3], now) or 0, 0 }
  end
end
return left
