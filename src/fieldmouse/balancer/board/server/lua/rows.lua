-- Blobs of rows, and what is owed under an epoch.
--
-- A blob has a kind, a count (4 bytes, little-endian) and the keys of its rows, 8 bytes each, so that scripts
-- know which URLs are in it without reading them:
--   r  count, keys, rows (each with its length in 4 bytes)
--   z  count, keys, the same rows packed with zstd
--   x  count of what is left, count of exclusions, their keys, and a blob of the other kinds
--
-- o:EPOCH    the blobs granted under an epoch (list)
-- k:EPOCH    the keys owed under it: neither booked nor put back (set of integers)
-- owe:ID     the epochs under which an agent owes anything, with `ROWS CHECK HOST` (hash): the rows in its blobs,
--            and how few of them must be owed before the first blob may have none; ID is `INCARNATION:AGENT`
-- q:HOST     the blobs that wait (list), and h:HOST n: how many rows are in them

-- A key of 8 bytes as a signed decimal number; Lua's own numbers are too short for it.
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

-- How many keys a blob claims at a place, if it has them and these are not too many; otherwise nil.
local function claims(blob, place)
  if #blob < place + 3 then return nil end
  local count = struct.unpack('<I4', blob, place)
  if count > 65536 or #blob < place + 3 + 8 * count then return nil end
  return count
end

-- The keys in a blob as bytes, those that are excluded left out; then the blob inside, and the exclusions. nil if it
-- is no blob.
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

-- One command with many members, in parts that fit on Lua's stack; the answers of integers are added up.
local function many(command, key, members)
  local sum = 0
  for i = 1, #members, 4000 do
    sum = sum + call(command, key, unpack(members, i, math.min(i + 3999, #members)))
  end
  return sum
end

-- How many rows are granted under an epoch that `id` owes for `host`, and when to look; nil if it owes nothing.
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

-- Takes whole blobs from the head of a queue, about `urls` rows, and owes them. Returns blobs and rows.
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

-- What is left of an epoch after some of its keys are owed no longer: blobs of which nothing is owed go. They are
-- read only when so many keys are gone that the first may be empty.
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
    if not first then -- what is owed has no rows: it is booked or released, and that is all
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
