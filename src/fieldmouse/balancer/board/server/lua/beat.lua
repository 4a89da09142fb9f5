-- uses: begin rows hosts agents books
-- A sign of life.
--
-- ARGV: agent, incarnation, advert, lease
-- Promise: what it holds is its own for `lease` longer. Whoever is overdue is fenced, and a part of what
-- they had given to others. Returns the books, whether the caller should drain, and whether all is swept up.
local agent, incarnation, advert, lease = arg(), arg(), arg(), number()
local no = refusal(agent, incarnation)
if no then return no end
call('HSET', P .. 'agent:' .. agent, 'advert', advert)
extend(agent, lease)
fence_overdue('')
local swept = sweep(64)
return { books(), call('HGET', P .. 'agent:' .. agent, 'draining') == '1' and 1 or 0, swept }
