-- uses: begin rows hosts agents books heard
-- A sign of life.
--
-- ARGV: agent, incarnation, advert, lease, after whom agents are told of, how many of them at most, the number of this
--       sign (0 for none); agent, incarnation and number of one that must have been heard: OLDER otherwise; and how
--       many URLs of `scope` the caller knows
-- Promise: what it holds is its own for `lease` longer. Whoever is overdue is fenced, told of or not, and a part
-- of what they had given to others. Returns the books with the caller and the agents of that turn, whether the
-- caller should drain, whether all is swept up, how many agents are alive, how many there are, and up to whom they
-- were told of, `` if all were; and the URLs of `scope`, unless the caller knows that many.
local agent, incarnation, advert, lease, after, most = arg(), arg(), arg(), number(), arg(), number()
local count, whose, start, since, joined = number(), arg(), arg(), number(), number()
if not has_heard(whose, start, since) then return unheard(whose) end
local no = refusal(agent, incarnation)
if no then return no end
call('HSET', P .. 'agent:' .. agent, 'advert', advert)
if count > 0 then hear(agent, incarnation, count) end
extend(agent, lease)
fence_overdue('')
local swept = sweep(64)
local told, members, upto = whose_turn(agent, after, most)
local draining = call('HGET', P .. 'agent:' .. agent, 'draining') == '1' and 1 or 0
if draining == 1 then call('HSET', P .. 'agent:' .. agent, 'heard', '1') end
local scope = {}
if call('SCARD', P .. 'scope') ~= joined then scope = call('SMEMBERS', P .. 'scope') end
return { books(told), draining, swept, call('ZCARD', P .. 'live'), members, upto, scope }
