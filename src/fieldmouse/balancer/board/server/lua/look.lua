-- uses: begin books
-- What all adds up to, and who is here, for who is no agent. ARGV: nothing
-- Promise: all of it was true at one moment.
return books(call('ZRANGE', P .. 'names', 0, -1))
