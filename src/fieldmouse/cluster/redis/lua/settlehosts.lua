-- uses: begin hosts
-- Set the state of hosts in a rebuild. They have no holders.
--
-- ARGV: number of hosts, and for each: host, state, rest, delay, learned, robots.txt, how long that is valid
-- Promise: none of them is visited before its rest is over.
for _ = 1, number() do
  local host, state, rest, delay, learned, robots, robots_rest = arg(), arg(), number(), arg(), arg(), arg(), number()
  store_state(host, state, rest, delay, learned, robots, robots_rest)
  call('ZADD', P .. 'r:', 'XX', 'GT', sane(call('HGET', P .. 'h:' .. host, 'nb'), now), host)
end
return 1
