-- A crawl that the server lost is to be made again, out of sight.
--
-- KEYS[1]  prefix; ARGV: run id, charter
-- hidden   what `meta` is to a crawl that can be seen: agents find no crawl until it is renamed (hash)
-- Promise: nothing of a crawl that holds URLs is touched; HELD is the answer then. One that holds none is no more.
-- Epochs begin with the time in milliseconds: the lost board never gave these. Returns the charter that counts,
-- which is another one if such a work was begun before.
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
