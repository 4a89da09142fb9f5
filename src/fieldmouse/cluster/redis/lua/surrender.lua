-- uses: begin rows hosts agents
-- Release leases that an agent does not know: the answer that granted them was lost.
--
-- ARGV: agent, incarnation, number of leases, and for each: host, epoch, whether it knows the lease, LIST of the
--       keys that it knows, as decimals
-- Promise: all other URLs owed under the lease wait again; a host whose lease it does not know is free.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
local id = id_of(agent, incarnation)
for _ = 1, number() do
  local host, epoch, knows, keep = arg(), arg(), arg(), {}
  for _, key in ipairs(list()) do keep[key] = true end
  release(id, host, epoch, keep)
  if knows ~= '1' and call('HGET', P .. 'held:' .. id, host) == epoch then free(id, host, '', 0) end
end
return 1
