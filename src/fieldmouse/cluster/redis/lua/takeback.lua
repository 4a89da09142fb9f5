-- uses: begin hosts agents unsettled
-- Retry failed URLs of an agent.
--
-- ARGV: agent, incarnation, number of this call, host, LIST of keys as signed decimals, LIST of the kinds of their
--       outcomes, blob of their rows
-- forgave     number of the last call, by agent (hash): the numbers of an agent grow
-- back:AGENT  how often it retried a key that `kept:AGENT` has as well (hash)
-- Promise: the rows wait and are no longer settled, atomically; a repeated call does nothing. Returns the number of
-- waiting URLs; or a list of keys that already wait again, if there are any, and then nothing is done.
local agent, incarnation, count = arg(), arg(), number()
local no = refusal(agent, incarnation)
if no then return no end
if count <= sane(call('HGET', P .. 'forgave', agent), 0) then return 0 end
local host, keys, kinds, blob = arg(), list(), list(), arg()
local known = waiting_again(keys)
if #known > 0 then return known end
call('HSET', P .. 'forgave', agent, count)
unsettle(host, keys, kinds, blob)
for _, key in ipairs(keys) do call('HINCRBY', P .. 'back:' .. agent, key, 1) end
return #keys
