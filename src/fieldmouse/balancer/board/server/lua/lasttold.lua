-- uses: begin agents
-- The number of the last `book` of a start of an agent, fenced or not. ARGV: agent, incarnation
-- Of one whose outcomes were read from its disk when the board was made again, all were told.
local agent, incarnation = arg(), arg()
local restored = sane(call('HGET', P .. 'restored', agent), 0)
if tonumber(incarnation) <= restored then return 9007199254740991 end
return sane(fields(P .. 'told', id_of(agent, incarnation))[1], 0)
