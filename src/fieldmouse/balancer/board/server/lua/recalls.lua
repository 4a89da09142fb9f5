-- uses: begin heard
-- Whether a sign of life was ever heard. ARGV: agent, incarnation, number of the sign
-- Promise: OLDER if not, with the name of the agent.
local agent, incarnation, count = arg(), arg(), number()
if not has_heard(agent, incarnation, count) then return unheard(agent) end
return 1
