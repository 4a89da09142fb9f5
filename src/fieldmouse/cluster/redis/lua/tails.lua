-- uses: begin
-- Uncompressed and small blobs at the ends of queues.
--
-- ARGV: LIST of hosts
-- Returns for each: the last elements of its queue that could be one block or a few, and their digest.
local tails = {}
for i, host in ipairs(list()) do
  local queue, tail, length = P .. 'q:' .. host, {}, 0
  for j = 1, 64 do
    local blob = redis.pcall('LINDEX', queue, -j)
    if type(blob) ~= 'string' or #blob < 5 or length + #blob > 524288 then break end
    local kind, count = string.sub(blob, 1, 1), struct.unpack('<I4', blob, 2)
    if kind == 'x' or (kind == 'z' and count > 96) then break end
    length = length + #blob
    table.insert(tail, 1, blob)
  end
  tails[i] = { tail, redis.sha1hex(table.concat(tail)) }
end
return tails
