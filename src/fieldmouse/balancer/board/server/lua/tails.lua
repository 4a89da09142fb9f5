-- uses: begin
-- What lies unpacked, or in small blocks, at the ends of queues.
--
-- ARGV: LIST of hosts
-- Returns for each: the last elements of its queue that could be one block or a few, and the digest of them.
local tails = {}
for i, host in ipairs(list()) do
  local queue, tail = P .. 'q:' .. host, {}
  for j = 1, 64 do
    local blob = call('LINDEX', queue, -j)
    if not blob then break end
    local kind, count = string.sub(blob, 1, 1), struct.unpack('<I4', blob, 2)
    if kind == 'x' or (kind == 'z' and count > 96) then break end
    table.insert(tail, 1, blob)
  end
  tails[i] = { tail, redis.sha1hex(table.concat(tail)) }
end
return tails
