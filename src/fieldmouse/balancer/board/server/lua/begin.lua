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
local P, RUN = KEYS[1], ARGV[1]
local call, meta = redis.call, KEYS[2] or KEYS[1] .. 'meta'
local begun = call('HMGET', meta, 'run', 'skew', 'calm', 'clock', 'drag', 'stood', 'longest', 'jump')
if not begun[1] then return redis.error_reply('LOST there is no such crawl') end
local wall = call('TIME')
wall = wall[1] * 1000 + math.floor(wall[2] / 1000) + tonumber(begun[8] or 0)
local drag, stood = tonumber(begun[5] or 0), begun[6]
local clock = wall + drag
local last, most = tonumber(begun[4] or clock), math.max(tonumber(begun[7] or 0), 15000) / 2
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
local now = clock + tonumber(begun[2] or 0)
local calm = tonumber(begun[3] or 0)
if begun[1] ~= RUN then
  local known = call('HMGET', meta, 'epoch', 'longest', 'delay')
  local epoch = tonumber(known[1] or 0)
  calm = now + math.max(tonumber(known[2] or 0), 15000) + tonumber(known[3] or 0) + 2000
  call('HSET', meta, 'run', RUN, 'calm', calm, 'epoch', epoch + 1000000, 'since', now)
  call('RPUSH', P .. 'gaps', epoch + 1, epoch + 1000000)
end

-- Remembers the longest delay.
local function heed(delay)
  delay = math.min(tonumber(delay), 60000)
  if delay > tonumber(call('HGET', meta, 'delay') or 0) then call('HSET', meta, 'delay', delay) end
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
