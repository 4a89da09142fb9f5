-- uses: begin hosts seen
-- Add links.
--
-- ARGV: most hosts of a site, most URLs of a site (0: no bound), whether these are seeds, number of offers,
--       and for each: host, site, place, LIST of keys as signed decimals, LIST of 8 bytes of key, 4 of length, row
-- site:SITE hosts, urls: where these are bounded (hash)
-- Promise: a key that was never seen is seen from now on, and its row waits for its host, atomically.
-- Returns the number of new URLs, of URLs dropped for too many hosts and for too many URLs; and hosts with many raw rows.
local most_hosts, most_urls, seeds = number(), number(), arg()
local new, many_hosts, many_urls, raw = 0, 0, 0, {}
local bounded = most_hosts > 0 or most_urls > 0

-- Adds the new rows of a host to its queue; an idle host becomes available.
local function enqueue(host, place, keys, rows)
  local name, count = P .. 'h:' .. host, #rows
  local its = fields(name, 'n', 'by', 'p', 'nb', 'raw')
  local before, unpacked = sane(its[1], 0), sane(its[5], 0) + count
  local blob = 'r' .. struct.pack('<I4', count) .. table.concat(keys) .. table.concat(rows)
  local queue = P .. 'q:' .. host
  local pushed = redis.pcall('RPUSH', queue, blob)
  if type(pushed) == 'table' then
    set_key_aside(queue, pushed.err)
    call('RPUSH', queue, blob)
  end
  if unpacked >= 32 then -- only this caller compresses them
    unpacked, raw[#raw + 1] = 0, host
  end
  if its[1] then
    call('HSET', name, 'n', before + count, 'raw', unpacked)
  else
    hosts, its[3] = hosts + 1, place_of(place)
    call('HSET', name, 'n', count, 'raw', unpacked, 'p', its[3])
  end
  if before == 0 and not its[2] then stand(host, its[3], its[4]) end
  new = new + count
  return not its[1]
end

for _ = 1, number() do
  local host, site, place, keys, rows = arg(), arg(), arg(), list(), list()
  local fresh_keys, fresh_rows, left, full = {}, {}, math.huge, false
  if bounded then
    local counts = fields(P .. 'site:' .. site, 'hosts', 'urls')
    if most_urls > 0 then left = most_urls - sane(counts[2], 0) end
    full = most_hosts > 0 and sane(counts[1], 0) >= most_hosts and call('EXISTS', P .. 'h:' .. host) == 0
  end
  if full then
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
  if #fresh_rows > 0 then
    local first = enqueue(host, place, fresh_keys, fresh_rows)
    if bounded then
      add(P .. 'site:' .. site, 'urls', #fresh_rows)
      if first then add(P .. 'site:' .. site, 'hosts', 1) end
    end
  end
end
if new > 0 then call('HSET', meta, 'seen', seen, 'level', level, 'split', split, 'hosts', hosts) end
if seeds == '1' then call('HSET', meta, 'begun', '1') end
return { new, many_hosts, many_urls, raw }
