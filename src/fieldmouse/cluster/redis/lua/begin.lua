-- Start of every script: reads the time, checks that the crawl exists, and detects a restarted server.
--
-- KEYS[1]  prefix of all keys of the crawl, `fm:{NAME}:`; the braces keep them together on one server
-- KEYS[2]  key of its facts, if not `meta`: a crawl that is rebuilt is hidden until it is complete
-- ARGV[1]  run id of the server that the caller's connection leads to
-- ARGV     from the second on: the arguments of each script, read one after the other. LIST stands for a count and
--          that many items
--
-- Times are milliseconds on the coordinator's clock. It follows the server's clock, but setting the server's clock does
-- not move it. It never goes back. A gap of more than half a lease between two calls is taken for a clock that was set
-- and counts as no time, because agents call more often. If there really was no call, that time is lost and no harm is
-- done; a second such gap in a row counts as half a lease, so that time never stands still.
-- `meta.since` is when the running server was first noticed. `meta.skew` is added to these times, and `meta.jump` to the
-- server's clock: only tests set these.
-- Promise: the first call that reaches a restarted server notices it. The server may have lost its last second. From now
-- on it is calm for longer than any lease plus the longest delay (`meta.delay`, at most a minute), and the epochs that
-- it may have granted and lost are never granted again.
-- Damaged values: anything read here may have been written by another program. `sane`, `fields` and `add` treat a value
-- that is no number, hash or count as missing. The list `quarantine` keeps values that were set aside (msgpack of host
-- or key, field, reason, value; the last 1000), and `meta.quarantined` counts them.
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
  -- A server that is out of memory rejects these writes, but may accept the call.
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

-- Notes the longest delay.
local function note_delay(delay)
  delay = math.min(sane(delay, 0), 60000)
  if delay > sane(call('HGET', meta, 'delay'), 0) then call('HSET', meta, 'delay', delay) end
end

-- Keeps a damaged value for people, and counts it.
local function set_aside(what, field, why, value)
  redis.pcall('HINCRBY', meta, 'quarantined', 1)
  call('RPUSH', P .. 'quarantine', cmsgpack.pack({ what, field, why, string.sub(value or '', 1, 65536) }))
  call('LTRIM', P .. 'quarantine', -1000, -1)
end

-- The same for a whole key, which is deleted.
local function set_key_aside(key, why)
  set_aside(key, 'key', why, '')
  call('UNLINK', key)
end

-- Adds to a count in a hash. A damaged count or hash starts again.
local function add(key, field, amount)
  local sum = redis.pcall('HINCRBY', key, field, amount)
  if type(sum) == 'number' then return sum end
  local value = redis.pcall('HGET', key, field)
  if type(value) == 'table' then set_key_aside(key, sum.err) else set_aside(key, field, sum.err, value) end
  call('HSET', key, field, amount)
  return amount
end

-- Settles URLs that can no longer be read: the crawl ends without them.
local function settle_damaged(count)
  if count <= 0 then return end
  add(meta, 'settled', count)
  add(P .. 'kinds', 'quarantined', count)
end

-- HMGET of a hash; a value of another type is set aside.
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
