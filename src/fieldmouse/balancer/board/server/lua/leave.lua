-- uses: begin rows hosts agents
-- An agent ends in order, or is forgotten.
--
-- ARGV: agent, incarnation (`` for whichever counts), whether it has stopped asking
-- Promise: it counts no longer, and is no longer among the agents. Returns whether all it had is swept up.
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
