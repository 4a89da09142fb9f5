-- uses: begin
-- Make a rebuilt crawl visible.
--
-- ARGV: lease, delay, age of the crawl
-- Promise: it is atomic. The coordinator is calm for longer than a lease plus the delay: all holders of leases from the
-- lost server have stopped by then.
local lease, delay, age = number(), number(), number()
if call('EXISTS', P .. 'meta') == 1 then return redis.error_reply('HELD there is such a crawl') end
note_delay(delay)
local rest = sane(call('HGET', meta, 'delay'), 0)
call('HSET', meta, 'begun', '1', 'longest', lease, 'founded', now - age, 'calm', now + math.max(lease, 15000) + rest + 2000)
call('RENAME', meta, P .. 'meta')
return 1
