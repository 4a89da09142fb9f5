-- URLs that were settled once and wait again.
--
-- u:DIGITS  their keys, by the last four digits (sets, small enough to stay compact for some millions of them)
-- meta.unsettled  their number: 0 in most crawls

local function unsettled_in(key) return P .. 'u:' .. string.sub(key, -4) end

-- Those of the keys that already wait again: they must not be queued a second time.
local function waiting_again(keys)
  local known = {}
  for _, key in ipairs(keys) do
    if call('SISMEMBER', unsettled_in(key), key) == 1 then known[#known + 1] = key end
  end
  return known
end

-- Lets rows of a host, as a blob with the kinds of their outcomes, wait again; they are no longer settled.
local function unsettle(host, keys, kinds, blob)
  if #keys == 0 then return end
  call('RPUSH', P .. 'q:' .. host, blob)
  await(host, #keys)
  call('HINCRBY', meta, 'settled', -#keys)
  call('HINCRBY', meta, 'unsettled', #keys)
  for i, key in ipairs(keys) do
    call('SADD', unsettled_in(key), key)
    if kinds[i] ~= '' then add(P .. 'kinds', kinds[i], -1) end
  end
end
