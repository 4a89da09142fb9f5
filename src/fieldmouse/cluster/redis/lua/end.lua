-- uses: begin
-- Stop the crawl for all agents because of a limit. ARGV: the reason, `` if the crawl continues.
call('HSET', meta, 'over', arg())
return 1
