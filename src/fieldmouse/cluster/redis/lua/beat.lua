-- uses: begin rows hosts agents books heard
-- Heartbeat.
--
-- ARGV: agent, incarnation, advert, lease, agent after which the list of agents starts, its most length, number of this
--       heartbeat (0 for none); agent, incarnation and number of a heartbeat that must be known: OLDER otherwise; and
--       how many URLs of `scope` the caller has
-- Promise: the caller keeps its leases for `lease` longer. Overdue agents are fenced, listed or not, and some of their
-- leases released. Returns the totals with the caller and the listed agents, whether the caller should drain, whether
-- all leases of fenced agents are released, the number of living agents and of members, and the last agent listed, ``
-- if all are; and the URLs of `scope`, unless the caller has that many.
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
