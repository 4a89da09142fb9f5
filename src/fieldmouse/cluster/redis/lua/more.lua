-- uses: begin rows hosts agents grant
-- Grant more URLs of hosts that an agent holds.
--
-- ARGV: agent, incarnation, urls, number of hosts, and for each: host, epoch
-- Promise: they are owed under the epoch of the host. Nothing is granted for a host that is not held.
local agent, incarnation, urls = arg(), arg(), number()
local no = refusal(agent, incarnation)
if no then return no end
local id, grants = id_of(agent, incarnation), {}
for i = 1, number() do
  local host, epoch = arg(), arg()
  grants[i] = 0
  if call('HGET', P .. 'held:' .. id, host) == epoch then grants[i] = grant(id, host, epoch, urls) end
end
return grants
