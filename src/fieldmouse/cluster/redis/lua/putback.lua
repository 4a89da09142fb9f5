-- uses: begin rows hosts agents
-- Return URLs that will not be visited under the lease that granted them.
--
-- ARGV: agent, incarnation, number of leases, and for each: host, epoch, blob of rows, LIST of their keys as decimals
-- Promise: those that are owed wait again, with these rows; no URL twice.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
local id = id_of(agent, incarnation)
for _ = 1, number() do
  local host, epoch, blob, keys = arg(), arg(), arg(), list()
  put_back(id, host, epoch, blob, keys)
end
return 1
