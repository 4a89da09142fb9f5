-- uses: begin agents
-- Whether a start of an agent was never fenced. ARGV: agent, incarnation
return refusal(arg(), arg()) and 0 or 1
