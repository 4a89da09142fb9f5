-- uses: begin books
-- Totals and agents, for callers that are not agents. ARGV: nothing
-- Promise: all of it was true at one moment.
return books(call('ZRANGE', P .. 'names', 0, -1))
