-- uses: begin
-- Ask an agent to finish its work and leave.
--
-- ARGV: agent
-- Returns whether there is one of that name. It learns of the request with its next heartbeat.
local agent = arg()
if not call('ZSCORE', P .. 'names', agent) then return 0 end
call('HSET', P .. 'agent:' .. agent, 'draining', '1')
return 1
