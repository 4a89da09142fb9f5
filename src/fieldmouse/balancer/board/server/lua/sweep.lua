-- uses: begin rows hosts agents
-- Give more of what the dead had to others. ARGV: nothing
-- Promise: bounded work. Returns whether all is done.
return sweep(64)
