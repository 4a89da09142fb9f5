-- Start the rebuild of a lost crawl, out of sight.
--
-- KEYS[1]  prefix; ARGV: run id, charter
-- hidden   takes the part of `meta`: agents find no crawl until it is renamed (hash)
-- Promise: a crawl that holds URLs is not touched; the answer is HELD. An empty crawl is deleted. Epochs start with the
-- time in milliseconds: the lost server never granted these. Returns the charter in force, which differs from the
-- argument if a rebuild was started before.
local P, call = KEYS[1], redis.call
local meta, hidden = P .. 'meta', P .. 'hidden'
local seen = call('HGET', meta, 'seen')
if seen and seen ~= '0' then return redis.error_reply('HELD there is such a crawl') end
call('DEL', meta)
if call('HSETNX', hidden, 'charter', ARGV[2]) == 1 then
  local clock = call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  call('HSET', hidden, 'run', ARGV[1], 'founded', now, 'seen', 0, 'settled', 0, 'hosts', 0, 'epoch', now,
    'level', 0, 'split', 0)
end
return call('HGET', hidden, 'charter')
