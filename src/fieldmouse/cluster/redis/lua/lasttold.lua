-- uses: begin agents
-- Number of the last `book` of a start of an agent, fenced or not. ARGV: agent, incarnation
-- If its outcomes were restored from its disk, all of its calls count as received.
local agent, incarnation = arg(), arg()
local restored = sane(call('HGET', P .. 'restored', agent), 0)
if tonumber(incarnation) <= restored then return 9007199254740991 end
return sane(fields(P .. 'told', id_of(agent, incarnation))[1], 0)
