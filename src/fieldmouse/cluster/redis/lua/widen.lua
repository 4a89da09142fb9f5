-- uses: begin
-- Add pages that seeds redirect to.
--
-- ARGV: LIST of URLs
-- scope  the URLs (set), 10,000 at most
-- Promise: every agent receives them with a heartbeat.
for _, url in ipairs(list()) do
  if call('SCARD', P .. 'scope') < 10000 then call('SADD', P .. 'scope', url) end
end
return 1
