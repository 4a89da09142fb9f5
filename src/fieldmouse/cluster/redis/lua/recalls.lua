-- uses: begin heard
-- Check that a heartbeat was received. ARGV: agent, incarnation, number of the heartbeat
-- Promise: OLDER if not, with the name of the agent.
local agent, incarnation, count = arg(), arg(), number()
if not has_heard(agent, incarnation, count) then return unheard(agent) end
return 1
