-- uses: begin agents
-- Leases of an agent. ARGV: agent, incarnation
-- Returns the hosts it holds with their epochs, and the epochs under which it owes URLs with `ROWS CHECK HOST`.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
local id = id_of(agent, incarnation)
return { call('HGETALL', P .. 'held:' .. id), call('HGETALL', P .. 'owe:' .. id) }
