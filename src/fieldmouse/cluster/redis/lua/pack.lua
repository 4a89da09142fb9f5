-- uses: begin
-- Replace the ends of queues by compressed blobs.
--
-- ARGV: number of queues, and for each: host, number of elements, their digest, LIST of the blobs that replace them
-- Promise: a queue whose last elements have changed since they were read stays as it is.
-- Returns the number of replaced ones.
local packed = 0
for _ = 1, number() do
  local host, count, digest, blobs = arg(), number(), arg(), list()
  local queue = P .. 'q:' .. host
  if count > 0 and redis.sha1hex(table.concat(call('LRANGE', queue, -count, -1))) == digest then
    call('RPOP', queue, count)
    call('RPUSH', queue, unpack(blobs))
    packed = packed + 1
  end
end
return packed
