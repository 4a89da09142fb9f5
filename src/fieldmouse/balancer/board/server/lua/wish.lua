-- uses: begin agents
-- Hosts of which an agent has known pages to ask for again.
--
-- ARGV: agent, incarnation, LIST of hosts
-- w:AGENT  the hosts that it wishes for, by when each is to be looked at (sorted set): see `lease`
-- Promise: a host is wished for once by an agent, and stands nowhere else for that.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
for _, host in ipairs(list()) do
  if call('EXISTS', P .. 'h:' .. host) == 0 then
    call('HSET', P .. 'h:' .. host, 'n', 0, 'p', '')
    call('HINCRBY', meta, 'hosts', 1)
  end
  call('ZADD', P .. 'w:' .. agent, 'NX', now, host)
end
return 1
