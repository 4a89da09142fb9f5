-- uses: begin hosts
-- What an agent booked once is to be fetched again.
--
-- ARGV: agent, digest of the oldest that was kept of it, LIST of kinds and counts in turn, LIST of keys that it has
--       taken back, number of hosts, and for each: host, how many rows, blob
-- Promise: the rows wait, are settled no longer, and are kept no longer, in one act; repeated it does nothing.
local agent, digest, kinds, back = arg(), arg(), list(), list()
local kept = call('LINDEX', P .. 'kept:' .. agent, 0)
if not kept or redis.sha1hex(kept) ~= digest then return 0 end
call('LPOP', P .. 'kept:' .. agent)
for _, key in ipairs(back) do
  if call('HINCRBY', P .. 'back:' .. agent, key, -1) <= 0 then call('HDEL', P .. 'back:' .. agent, key) end
end
local sum = 0
for _ = 1, number() do
  local host, rows, blob = arg(), number(), arg()
  call('RPUSH', P .. 'q:' .. host, blob)
  await(host, rows)
  sum = sum + rows
end
call('HINCRBY', meta, 'settled', -sum)
for i = 1, #kinds, 2 do call('HINCRBY', P .. 'kinds', kinds[i], -kinds[i + 1]) end
return sum
