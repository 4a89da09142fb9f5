-- Blobs of rows, and the URLs owed under an epoch.
--
-- A blob has a kind, a count (4 bytes, little-endian) and the keys of its rows, 8 bytes each, so that scripts
-- know its URLs without reading the rows:
--   r  count, keys, rows (each with its length in 4 bytes)
--   z  count, keys, the same rows compressed with zstd
--   x  count of the remaining rows, count of exclusions, their keys, and a blob of the other kinds
--
-- o:EPOCH    the blobs granted under an epoch (list)
-- k:EPOCH    the keys owed under it: neither acknowledged nor put back (set of integers)
-- owe:ID     the epochs under which an agent owes URLs, with `ROWS CHECK HOST` (hash): the rows in its blobs,
--            and how few of them must be owed before the first blob may have none; ID is `INCARNATION:AGENT`
-- q:HOST     the waiting blobs (list), and h:HOST n: the number of rows in them

-- A key of 8 bytes as a signed decimal number, which Lua's numbers cannot hold.
local function decimal(bytes)
  local low, high = struct.unpack('<I4I4', bytes)
  local sign = ''
  if high >= 2147483648 then
    sign, low, high = '-', 4294967296 - low, 4294967295 - high
    if low == 4294967296 then low, high = 0, high + 1 end
  end
  local tail = high * 967296 + low
  local last = tail % 1000000
  local first = high * 4294 + (tail - last) / 1000000
  if first == 0 then return sign .. string.format('%d', last) end
  return sign .. string.format('%.0f%06d', first, last)
end

-- Number of keys that a blob claims at a place; nil if it does not have them, or they are too many.
local function claims(blob, place)
  if #blob < place + 3 then return nil end
  local count = struct.unpack('<I4', blob, place)
  if count > 65536 or #blob < place + 3 + 8 * count then return nil end
  return count
end

-- The keys in a blob as bytes, without the excluded ones; then the inner blob, and the exclusions. nil if it is no
-- blob.
local function keys_in(blob)
  local out, first, exclusions = {}, {}, ''
  if string.byte(blob, 1) == 120 then
    local excluded = claims(blob, 6)
    if not excluded then return nil end
    exclusions = string.sub(blob, 10, 9 + 8 * excluded)
    for i = 1, #exclusions, 8 do out[string.sub(exclusions, i, i + 7)] = true end
    blob = string.sub(blob, 10 + 8 * excluded)
  end
  local kind, count = string.sub(blob, 1, 1), claims(blob, 2)
  if not count or (kind ~= 'r' and kind ~= 'z') then return nil end
  for i = 0, count - 1 do
    local key = string.sub(blob, 6 + 8 * i, 13 + 8 * i)
    if not out[key] then first[#first + 1] = key end
  end
  return first, blob, exclusions
end

local function excluding(inner, exclusions, left)
  return 'x' .. struct.pack('<I4I4', left, #exclusions / 8) .. exclusions .. inner
end

-- Runs one command with many members, in parts that fit on Lua's stack; adds up integer answers.
local function many(command, key, members)
  local sum = 0
  for i = 1, #members, 4000 do
    sum = sum + call(command, key, unpack(members, i, math.min(i + 3999, #members)))
  end
  return sum
end

-- Number of rows granted under an epoch that `id` owes for `host`, and its CHECK; nil if it owes nothing.
local function owes(id, host, epoch)
  local known = call('HGET', P .. 'owe:' .. id, epoch)
  if not known then return nil end
  local total, check, whose = string.match(known, '^(%d+) (%-?%d+) (.*)$')
  if whose ~= host then return nil end
  return sane(total, 0), sane(check, 0)
end

local function owe(id, host, epoch, total, check)
  call('HSET', P .. 'owe:' .. id, epoch, total .. ' ' .. check .. ' ' .. host)
end

-- Takes whole blobs from the head of a queue, about `urls` rows, and records them as owed. Returns blobs and rows.
local function take(id, host, epoch, urls)
  local blobs, rows, queue = {}, 0, P .. 'q:' .. host
  local owed = {}
  while rows < urls do
    local blob = redis.pcall('LPOP', queue)
    if type(blob) == 'table' then
      set_key_aside(queue, blob.err)
      break
    end
    if not blob then break end
    local keys = keys_in(blob)
    if keys then
      blobs[#blobs + 1] = blob
      for _, key in ipairs(keys) do
        owed[#owed + 1] = decimal(key)
        rows = rows + 1
      end
    else
      set_aside(host, 'rows', 'it is no block of rows', blob)
    end
  end
  if rows > 0 then
    many('RPUSH', P .. 'o:' .. epoch, blobs)
    many('SADD', P .. 'k:' .. epoch, owed)
    local total, check = owes(id, host, epoch)
    if not total then total, check = 0, -struct.unpack('<I4', blobs[1], 2) end
    owe(id, host, epoch, total + rows, check + rows)
  end
  return blobs, rows
end

-- Drops the blobs of an epoch of which no key is owed. They are read only when the number of owed keys is so low that
-- the first may be empty.
local function trim(id, host, epoch, total, check)
  local granted, owed = P .. 'o:' .. epoch, P .. 'k:' .. epoch
  local left = call('SCARD', owed)
  if left == 0 then
    call('UNLINK', granted)
    call('HDEL', P .. 'owe:' .. id, epoch)
    return
  end
  if left > check then return end
  while left <= check do
    local first = call('LINDEX', granted, 0)
    local keys, still, wanted = first and keys_in(first) or {}, 0, {}
    if not first then -- the owed keys have no rows: they can only be acknowledged or released
      check = -1
      break
    end
    for i, key in ipairs(keys) do wanted[i] = decimal(key) end
    for i = 1, #wanted, 4000 do
      local answers = call('SMISMEMBER', owed, unpack(wanted, i, math.min(i + 3999, #wanted)))
      for _, there in ipairs(answers) do still = still + there end
    end
    if still > 0 then
      check = left - still
    else
      call('LPOP', granted)
      total = total - #keys
      local following = call('LINDEX', granted, 0)
      check = total - (following and claims(following, 2) or 0)
    end
  end
  owe(id, host, epoch, total, check)
end
