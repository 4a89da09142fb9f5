-- uses: begin
-- What lies unpacked, or in small blocks, at the ends of queues.
--
-- ARGV: LIST of hosts
-- Returns for each: the last elements of its queue that could be one block or a few, and the digest of them.
local tails = {}
for i, host in ipairs(list()) do
  local last, tail = call('LRANGE', P .. 'q:' .. host, -64, -1), {}
  for j = #last, 1, -1 do
    local kind, count = string.sub(last[j], 1, 1), struct.unpack('<I4', last[j], 2)
    if kind == 'x' or (kind == 'z' and count > 96) then break end
    table.insert(tail, 1, last[j])
  end
  tails[i] = { tail, redis.sha1hex(table.concat(tail)) }
end
return tails
