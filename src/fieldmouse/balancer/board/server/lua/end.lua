-- uses: begin
-- A limit is reached: everybody stops. ARGV: why, `` if the crawl goes on.
call('HSET', meta, 'over', arg())
return 1
