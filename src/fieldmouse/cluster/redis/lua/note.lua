-- uses: begin rows hosts agents
-- Store the state of hosts that an agent still holds.
--
-- ARGV: agent, incarnation, number of hosts, and for each: host, epoch, state, rest, delay, learned, robots.txt,
--       how long that is valid
-- Promise: hosts not held under that epoch are ignored.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
local id = id_of(agent, incarnation)
for _ = 1, number() do
  local host, epoch = arg(), arg()
  local state, rest, delay, learned, robots, robots_rest = arg(), number(), arg(), arg(), arg(), number()
  if call('HGET', P .. 'held:' .. id, host) == epoch then
    store_state(host, state, rest, delay, learned, robots, robots_rest)
  end
end
return 1
