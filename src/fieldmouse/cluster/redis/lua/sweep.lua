-- uses: begin rows hosts agents
-- Release more leases of fenced agents. ARGV: nothing
-- Promise: bounded work. Returns whether all is done.
return sweep(64)
