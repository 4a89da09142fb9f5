-- uses: begin rows hosts agents
-- Release hosts.
--
-- ARGV: agent, incarnation, number of hosts, and for each: host, epoch, place, state, rest, delay, learned,
--       robots.txt, how long that is valid, blob of rows not visited, LIST of their keys as signed decimals,
--       LIST of excluded agents, each followed by a duration
-- Promise: the host waits for its next visit, atomically. Granted URLs that are neither unused nor acknowledged stay
-- owed under the old epoch. Hosts not held under that epoch are ignored.
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
    store_state(host, state, rest, delay, learned, robots, robots_rest)
    for i = 2, #shunned, 2 do shunned[i] = string.format('%.0f', now + tonumber(shunned[i])) end
    if #shunned > 0 then call('HSET', P .. 'h:' .. host, 'no', '\n' .. table.concat(shunned, '\n') .. '\n') end
    free(id, host, place_of(place), 0)
  end
end
return 1
