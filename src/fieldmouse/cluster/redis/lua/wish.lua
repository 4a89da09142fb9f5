-- uses: begin agents
-- Wish for hosts whose known pages an agent wants to fetch again.
--
-- ARGV: agent, incarnation, LIST of hosts
-- w:AGENT  the hosts that it wishes for, by when each is tried next (sorted set): see `lease`
-- Promise: an agent has one wish per host, which puts the host into no other queue.
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
