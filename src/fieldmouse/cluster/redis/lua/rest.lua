-- uses: begin agents
-- Free addresses after host visits.
--
-- ARGV: agent, incarnation, number of addresses, and for each: address, rest
-- resting  free addresses, by when their rest is over (sorted set)
-- Promise: the address is not granted before its rest is over; the caller no longer has it. Records of rested addresses
-- are deleted a few at a time: an expiry would depend on a clock that may be set.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
local id = id_of(agent, incarnation)
for _ = 1, number() do
  local address, rest = arg(), number()
  local name = P .. 'a:' .. address
  local known = fields(name, 'by', 'nb')
  local ready = math.max(now + rest, sane(known[2], 0))
  if known[1] == id then call('HDEL', name, 'by') end
  call('HSET', name, 'nb', ready)
  if known[1] == id or not known[1] then call('ZADD', P .. 'resting', ready, address) end
end
for _, address in ipairs(call('ZRANGEBYSCORE', P .. 'resting', '-inf', now, 'LIMIT', 0, 64)) do
  call('ZREM', P .. 'resting', address)
  local known = fields(P .. 'a:' .. address, 'by', 'nb')
  if not known[1] and sane(known[2], 0) <= now then call('UNLINK', P .. 'a:' .. address) end
end
return 1
