-- uses: begin hosts
-- Links were found.
--
-- ARGV: most hosts of a site, most URLs of a site (0: no bound), whether these are seeds, number of offers,
--       and for each: host, site, place, LIST of keys as signed decimals, LIST of 8 bytes of key, 4 of length, row
-- s:N   seen keys (sets of integers); site:SITE hosts, urls: where these are bounded (hash)
-- Promise: a key that was never seen is seen from now on, and its row waits for its host, in the same act.
-- Returns how many were new, and left out for too many hosts and too many URLs; and hosts with many raw rows.
--
-- The seen keys are spread over buckets by linear hashing: one bucket is split whenever there are more than 190
-- keys a bucket, so the fullest stays below 512, up to which the server keeps a set packed, at 8 bytes a key.
local most_hosts, most_urls, seeds = number(), number(), arg()
local known = call('HMGET', meta, 'seen', 'level', 'split', 'hosts')
local seen, level, split, hosts = tonumber(known[1]), tonumber(known[2]), tonumber(known[3]), tonumber(known[4])
local size, buckets = 2 ^ level, P .. 's:'
local new, many_hosts, many_urls, raw = 0, 0, 0, {}

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

for _ = 1, number() do
  local host, site, place, keys, rows = arg(), arg(), arg(), list(), list()
  local name, fresh_keys, fresh_rows = P .. 'h:' .. host, {}, {}
  local exists = call('EXISTS', name) == 1
  local left = math.huge
  local counts = { false, false }
  if most_hosts > 0 or most_urls > 0 then counts = call('HMGET', P .. 'site:' .. site, 'hosts', 'urls') end
  if most_urls > 0 then left = most_urls - tonumber(counts[2] or 0) end
  if not exists and most_hosts > 0 and tonumber(counts[1] or 0) >= most_hosts then
    many_hosts = many_hosts + #keys
  else
    for i, key in ipairs(keys) do
      if left > 0 then
        if call('SADD', bucket_of(key), key) == 1 then
          seen, left = seen + 1, left - 1
          fresh_keys[#fresh_keys + 1] = string.sub(rows[i], 1, 8)
          fresh_rows[#fresh_rows + 1] = string.sub(rows[i], 9)
          if seen > 190 * (size + split) then split_one() end
        end
      elseif call('SISMEMBER', bucket_of(key), key) == 0 then
        many_urls = many_urls + 1
      end
    end
  end
  local count = #fresh_rows
  if count > 0 then
    new = new + count
    if not exists then
      hosts = hosts + 1
      call('HSET', name, 'p', place_of(place))
    end
    if most_hosts > 0 or most_urls > 0 then
      call('HINCRBY', P .. 'site:' .. site, 'urls', count)
      if not exists then call('HINCRBY', P .. 'site:' .. site, 'hosts', 1) end
    end
    local blob = 'r' .. struct.pack('<I4', count) .. table.concat(fresh_keys) .. table.concat(fresh_rows)
    call('RPUSH', P .. 'q:' .. host, blob)
    await(host, count)
    if call('HINCRBY', name, 'raw', count) >= 32 then -- and the caller packs them, nobody else
      call('HSET', name, 'raw', 0)
      raw[#raw + 1] = host
    end
  end
end
call('HSET', meta, 'seen', seen, 'level', level, 'split', split, 'hosts', hosts)
if seeds == '1' then call('HSET', meta, 'begun', '1') end
return { new, many_hosts, many_urls, raw }
