-- uses: begin
-- All of a crawl that was made again is there: from now on it can be seen.
--
-- ARGV: lease, delay, how old the crawl is
-- Promise: in one act. The board is calm for longer than a lease lasts, with the delay after it: whoever held
-- anything on the lost one has stopped by then.
local lease, delay, age = number(), number(), number()
if call('EXISTS', P .. 'meta') == 1 then return redis.error_reply('HELD there is such a crawl') end
heed(delay)
local rest = sane(call('HGET', meta, 'delay'), 0)
call('HSET', meta, 'begun', '1', 'longest', lease, 'founded', now - age, 'calm', now + math.max(lease, 15000) + rest + 2000)
call('RENAME', meta, P .. 'meta')
return 1
