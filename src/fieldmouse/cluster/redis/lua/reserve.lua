-- uses: begin agents
-- Reserve pages for an agent under a limit of the whole crawl.
--
-- ARGV: agent, incarnation, limit, pages it keeps, pages it wants, pages acknowledged on other servers, whether one of
--       those is calm
-- Promise: acknowledged and reserved pages never exceed the limit, unless agents keep more than it; a repeated call
-- changes nothing. The rule is that of `coordinator.compute_reservation`. Returns the pages reserved for the agent.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
local limit, keep, want, elsewhere, still = number(), number(), number(), number(), arg()
local own = sane(call('HGET', P .. 'agent:' .. agent, 'pages'), 0)
local others = sane(call('HGET', meta, 'reserved'), 0) - own
local booked = sane(redis.pcall('HGET', P .. 'kinds', 'page'), 0) + elsewhere
local free, most = limit - booked - others - keep, keep
if now >= calm and still ~= '1' and free > 0 then
  local part = math.max(1, math.floor(free / (2 * math.max(1, call('ZCARD', P .. 'live')))))
  most = math.max(keep, math.min(want, keep + math.min(free, part)))
end
reserve(agent, most)
return most
