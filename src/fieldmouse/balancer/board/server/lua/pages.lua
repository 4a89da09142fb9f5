-- uses: begin
-- How many pages were booked on this server, and whether it may have forgotten some of late. ARGV: nothing
return { sane(redis.pcall('HGET', P .. 'kinds', 'page'), 0), now < calm and 1 or 0 }
