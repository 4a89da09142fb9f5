-- Seen keys, in sets of integers (s:N).
--
-- They are spread over buckets by linear hashing: one bucket is split whenever there are more than 190 keys per bucket.
-- So the fullest stays below 512, up to which the server stores a set compactly, at 8 bytes per key.
local known = call('HMGET', meta, 'seen', 'level', 'split', 'hosts')
local seen, level, split, hosts = sane(known[1], 0), sane(known[2], 0), sane(known[3], 0), sane(known[4], 0)
local size, buckets = 2 ^ level, P .. 's:'

local function value_of(key)
  local value = tonumber(string.sub(key, -12))
  if value < 0 then return -value end
  return value
end

local function bucket_of(key)
  local value = value_of(key)
  local bucket = value % size
  if bucket < split then return buckets .. value % (2 * size) end
  return buckets .. bucket
end

local function split_one()
  local from, to = buckets .. split, buckets .. (split + size)
  local stay, go = {}, {}
  for _, key in ipairs(call('SMEMBERS', from)) do
    if value_of(key) % (2 * size) == split then stay[#stay + 1] = key else go[#go + 1] = key end
  end
  call('DEL', from) -- made anew, so that it is packed again
  if #stay > 0 then call('SADD', from, unpack(stay)) end
  if #go > 0 then call('SADD', to, unpack(go)) end
  split = split + 1
  if split == size then size, level, split = size * 2, level + 1, 0 end
end
