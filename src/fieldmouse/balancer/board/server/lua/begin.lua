-- How every script begins: what time it is, whether there is a crawl, and whether the server is another one.
--
-- KEYS[1]  the prefix of all keys of the crawl, `fm:{NAME}:`; its braces keep them together on one server
-- KEYS[2]  where its facts are, if not in `meta`: a crawl that is made again is hidden until all of it is there
-- ARGV[1]  the run id of the server that the caller's connection leads to
-- ARGV     from the second on: what each script says, read one after the other. LIST stands for a count and
--          so many items
--
-- Times are the board's, in milliseconds: they go as the server's clock goes, and a clock that is set does not
-- move them. They never go back; and more than half a lease between two calls, while agents call more often, is
-- taken for a clock that was set, and counts for nothing. If nobody called for so long it was time lost, no more;
-- only when that happens twice running it counts as half a lease, so that time never stands still.
-- `meta.since` is when the server that runs was noticed first. `meta.skew` is added to them, and `meta.jump` to the server's clock: nobody but a test sets these.
-- Promise: a server that was started again is noticed by the first call that reaches it. It may have forgotten
-- its last second; from now on it is calm for longer than any lease lasts, with the longest delay (`meta.delay`,
-- a minute at most) after it, and the epochs that it may have given and forgotten are never given again.
-- Damaged values: whatever is read here may have been written by anybody. `sane`, `fields` and `add` read what is no
-- number, no hash or no count as nothing; what is set aside stands in the list `quarantine` (msgpack of host or key,
-- field, reason, value; the last 1000), and `meta.quarantined` says how much that was.
local P, RUN = KEYS[1], ARGV[1]
local call, meta = redis.call, KEYS[2] or KEYS[1] .. 'meta'
local begun = call('HMGET', meta, 'run', 'skew', 'calm', 'clock', 'drag', 'stood', 'longest', 'jump')
if not begun[1] then return redis.error_reply('LOST there is no such crawl') end

-- A finite number that is exact; otherwise `default`.
local function sane(value, default)
  local number = tonumber(value)
  if number and number >= -9007199254740992 and number <= 9007199254740992 then return number end
  return default
end
local wall = call('TIME')
wall = wall[1] * 1000 + math.floor(wall[2] / 1000) + sane(begun[8], 0)
local drag, stood = sane(begun[5], 0), begun[6]
local clock = wall + drag
local last, most = sane(begun[4], clock), math.max(sane(begun[7], 0), 15000) / 2
if clock < last or clock > last + most then
  local counted = last
  if clock > last and stood then counted = last + most end
  -- A server without memory takes no such note, and may take the call.
  redis.pcall('HSET', meta, 'clock', counted, 'drag', drag + counted - clock)
  if clock > last then redis.pcall('HSET', meta, 'stood', 1) end
  clock = counted
elseif clock > last + 200 or not begun[4] then
  redis.pcall('HSET', meta, 'clock', clock)
  if stood then redis.pcall('HDEL', meta, 'stood') end
end
local now = clock + sane(begun[2], 0)
local calm = sane(begun[3], 0)
if begun[1] ~= RUN then
  local known = call('HMGET', meta, 'epoch', 'longest', 'delay')
  local epoch = sane(known[1], 0)
  calm = now + math.max(sane(known[2], 0), 15000) + sane(known[3], 0) + 2000
  call('HSET', meta, 'run', RUN, 'calm', calm, 'epoch', epoch + 1000000, 'since', now)
  call('RPUSH', P .. 'gaps', epoch + 1, epoch + 1000000)
end

-- Remembers the longest delay.
local function heed(delay)
  delay = math.min(sane(delay, 0), 60000)
  if delay > sane(call('HGET', meta, 'delay'), 0) then call('HSET', meta, 'delay', delay) end
end

-- A damaged value is kept for people, and counted.
local function set_aside(what, field, why, value)
  redis.pcall('HINCRBY', meta, 'quarantined', 1)
  call('RPUSH', P .. 'quarantine', cmsgpack.pack({ what, field, why, string.sub(value or '', 1, 65536) }))
  call('LTRIM', P .. 'quarantine', -1000, -1)
end

-- The same for a whole key, which is gone afterwards.
local function set_key_aside(key, why)
  set_aside(key, 'key', why, '')
  call('UNLINK', key)
end

-- Adds to a count in a hash; a count that is none begins anew, and so does a hash that is none.
local function add(key, field, amount)
  local sum = redis.pcall('HINCRBY', key, field, amount)
  if type(sum) == 'number' then return sum end
  local value = redis.pcall('HGET', key, field)
  if type(value) == 'table' then set_key_aside(key, sum.err) else set_aside(key, field, sum.err, value) end
  call('HSET', key, field, amount)
  return amount
end

-- So many URLs that cannot be read any more have this for an outcome: the crawl ends without them.
local function settle_damaged(count)
  if count <= 0 then return end
  add(meta, 'settled', count)
  add(P .. 'kinds', 'quarantined', count)
end

-- HMGET of what should be a hash; one that is none is set aside.
local function fields(key, ...)
  local known = redis.pcall('HMGET', key, ...)
  if not known.err then return known end
  set_key_aside(key, known.err)
  return {}
end

local at = 1
local function arg() at = at + 1; return ARGV[at] end
local function number() return tonumber(arg()) end
local function list()
  local items, count = {}, number()
  for i = 1, count do items[i] = ARGV[at + i] end
  at = at + count
  return items
end
