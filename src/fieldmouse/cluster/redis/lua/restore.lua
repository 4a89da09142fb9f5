-- uses: begin seen
-- Restore URLs that have outcomes on an agent's disk, in a rebuild.
--
-- ARGV: agent, whether sites are bounded, LIST of kinds, packed URLs, number of hosts, and for each: host, site,
--       LIST of keys as signed decimals, and a digit for each of them: its index in the kinds, from 0
-- Promise: a key that was never seen is seen, settled and kept as acknowledged by the agent, atomically; keys seen
-- before stay as they are. Returns the number of new ones.
local agent, bounded, names, urls = arg(), arg(), list(), arg()
call('SADD', P .. 'left', agent)
local mask, kinds, sums, fresh = {}, {}, {}, 0
for _ = 1, number() do
  local host, site, keys, digits, new = arg(), arg(), list(), arg(), 0
  kinds[#kinds + 1] = digits
  for i, key in ipairs(keys) do
    local added = call('SADD', bucket_of(key), key)
    mask[#mask + 1] = added
    if added == 1 then
      seen, new = seen + 1, new + 1
      local kind = names[tonumber(string.sub(digits, i, i)) + 1]
      sums[kind] = (sums[kind] or 0) + 1
      if seen > 190 * (size + split) then split_one() end
    end
  end
  if new > 0 then
    local first = call('HSETNX', P .. 'h:' .. host, 'n', 0)
    if first == 1 then call('HSET', P .. 'h:' .. host, 'p', '') end
    hosts, fresh = hosts + first, fresh + new
    if bounded == '1' then
      call('HINCRBY', P .. 'site:' .. site, 'hosts', first)
      call('HINCRBY', P .. 'site:' .. site, 'urls', new)
    end
  end
end
if fresh > 0 then
  call('HSET', meta, 'seen', seen, 'level', level, 'split', split, 'hosts', hosts)
  call('HINCRBY', meta, 'settled', fresh)
  for kind, count in pairs(sums) do call('HINCRBY', P .. 'kinds', kind, count) end
  if urls ~= '' then
    if fresh == #mask then mask = {} end
    call('RPUSH', P .. 'kept:' .. agent, cmsgpack.pack({ table.concat(mask), names, table.concat(kinds), urls }))
  end
end
return fresh
