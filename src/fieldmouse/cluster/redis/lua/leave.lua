-- uses: begin rows hosts agents
-- Remove an agent that leaves in an orderly way, or is forgotten.
--
-- ARGV: agent, incarnation (`` for the active one), whether it has stopped fetching
-- Promise: it is fenced and no longer a member. Returns whether all its leases are released.
local agent, incarnation, stopped = arg(), arg(), arg()
local known = fields(P .. 'agent:' .. agent, 'inc', 'counts', 'deadline')
if not known[1] or (incarnation ~= '' and known[1] ~= incarnation) then return sweep(64) end
if known[2] == '1' then
  fence(agent, known[1], stopped == '1' and now or known[3], true)
end
if known[2] == '1' or incarnation == '' then
  call('ZREM', P .. 'names', agent)
  call('SADD', P .. 'left', agent)
end
return sweep(64)
