-- uses: begin hosts
-- How hosts stand of a crawl that is made again. Nobody holds any of them.
--
-- ARGV: number of hosts, and for each: host, state, rest, delay, learned, robots.txt, how long that holds
-- Promise: none of them is visited before its rest is over.
for _ = 1, number() do
  local host, state, rest, delay, learned, robots, robots_rest = arg(), arg(), number(), arg(), arg(), arg(), number()
  luggage(host, state, rest, delay, learned, robots, robots_rest)
  call('ZADD', P .. 'r:', 'XX', 'GT', sane(call('HGET', P .. 'h:' .. host, 'nb'), now), host)
end
return 1
