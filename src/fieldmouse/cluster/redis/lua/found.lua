-- Create a crawl unless it exists.
--
-- KEYS[1]  prefix; ARGV: run id, charter
-- Promise: only one caller writes the charter. Returns the one in force. While a crawl of that name is being rebuilt no
-- other is created: HIDDEN.
local meta = KEYS[1] .. 'meta'
if redis.call('EXISTS', KEYS[1] .. 'hidden') == 1 then return redis.error_reply('HIDDEN it is made again') end
if redis.call('HSETNX', meta, 'charter', ARGV[2]) == 1 then
  local clock = redis.call('TIME')
  redis.call('HSET', meta, 'run', ARGV[1], 'founded', clock[1] * 1000 + math.floor(clock[2] / 1000),
    'seen', 0, 'settled', 0, 'hosts', 0, 'epoch', 0, 'level', 0, 'split', 0)
end
return redis.call('HGET', meta, 'charter')
