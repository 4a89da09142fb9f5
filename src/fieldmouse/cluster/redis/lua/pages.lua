-- uses: begin
-- Number of pages acknowledged on this server, and whether it may have lost some of the last ones. ARGV: nothing
return { sane(redis.pcall('HGET', P .. 'kinds', 'page'), 0), now < calm and 1 or 0 }
