-- uses: begin agents
-- Errands are over.
--
-- ARGV: agent, incarnation, number of addresses, and for each: address, rest
-- Promise: nobody is granted the address before its rest is over; the caller has it no longer.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
local id = id_of(agent, incarnation)
for _ = 1, number() do
  local address, rest = arg(), number()
  local name = P .. 'a:' .. address
  local known = call('HMGET', name, 'by', 'nb')
  local ready = math.max(now + rest, tonumber(known[2] or 0))
  if known[1] == id then call('HDEL', name, 'by') end
  call('HSET', name, 'nb', ready)
  if known[1] == id or not known[1] then call('PEXPIRE', name, ready - now + 1000) end
end
return 1
