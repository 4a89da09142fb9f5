-- uses: begin rows hosts agents
-- Hosts that their holder lets go.
--
-- ARGV: agent, incarnation, number of hosts, and for each: host, epoch, place, state, rest, delay, learned,
--       robots.txt, how long that holds, blob of rows not visited, LIST of their keys as signed decimals,
--       LIST of agents that it shuns and for how long, in turn
-- Promise: the host waits for its next visit in the same act; what was granted and is neither unused nor
-- booked is owed on under the old epoch. What is not held under that epoch is passed over.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
local id = id_of(agent, incarnation)
for _ = 1, number() do
  local host, epoch, place = arg(), arg(), arg()
  local state, rest, delay, learned, robots, robots_rest = arg(), number(), arg(), arg(), arg(), number()
  local blob, keys, shunned = arg(), list(), list()
  if call('HGET', P .. 'held:' .. id, host) == epoch then
    put_back(id, host, epoch, blob, keys)
    luggage(host, state, rest, delay, learned, robots, robots_rest)
    for i = 2, #shunned, 2 do shunned[i] = string.format('%.0f', now + tonumber(shunned[i])) end
    if #shunned > 0 then call('HSET', P .. 'h:' .. host, 'no', '\n' .. table.concat(shunned, '\n') .. '\n') end
    free(id, host, place_of(place), 0)
  end
end
return 1
