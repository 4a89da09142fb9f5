-- uses: begin
-- Who is no longer among the agents, and has booked what would have to be fetched again without its disk.
--
-- ARGV: nothing
-- left  agents that left or were forgotten, or whose outcomes were restored, and that did not join since (set)
-- Returns of each what `books` returns of an agent.
local left = {}
for _, agent in ipairs(call('SMEMBERS', P .. 'left')) do
  if call('EXISTS', P .. 'kept:' .. agent) == 1 then
    local its = call('HMGET', P .. 'agent:' .. agent, 'inc', 'advert', 'seen')
    left[#left + 1] = { agent, its[1] or '0', 0, 0, its[2] or '', its[3] and now - tonumber(its[3]) or 0, 0 }
  end
end
return left
