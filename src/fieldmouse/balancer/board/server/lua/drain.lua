-- uses: begin
-- Ask an agent to finish what it has and leave.
--
-- ARGV: agent
-- Returns whether there is one of that name. It hears of it with its next sign of life.
local agent = arg()
if not call('ZSCORE', P .. 'names', agent) then return 0 end
call('HSET', P .. 'agent:' .. agent, 'draining', '1')
return 1
