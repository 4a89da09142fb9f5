-- uses: begin
-- Agents that left but have acknowledged URLs, which would have to be fetched again without their disks.
--
-- ARGV: nothing
-- left  agents that left, were forgotten, or whose outcomes were restored, and that have not joined since (set)
-- Returns for each the same as `books` for an agent.
local left = {}
for _, agent in ipairs(call('SMEMBERS', P .. 'left')) do
  if call('EXISTS', P .. 'kept:' .. agent) == 1 then
    local its = fields(P .. 'agent:' .. agent, 'inc', 'advert', 'seen')
    local advert = string.sub(its[2] or '', 1, 16384)
    left[#left + 1] = { agent, its[1] or '0', 0, 0, advert, its[3] and now - sane(its[3], now) or 0, 0 }
  end
end
return left
