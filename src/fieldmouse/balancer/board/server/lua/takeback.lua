-- uses: begin hosts agents unsettled
-- Outcomes that an agent takes back: failures that were not the URLs' own.
--
-- ARGV: agent, incarnation, number of this call, host, LIST of keys as signed decimals, LIST of the kinds of their
--       outcomes, blob of their rows
-- forgave     the number of the last call, by agent (hash): the numbers of an agent grow
-- back:AGENT  how often it took a key back, which `kept:AGENT` has as well (hash)
-- Promise: the rows wait and are settled no longer, in one act; repeated it does nothing. Returns how many wait; or a
-- list of the keys that wait again already, if there are any, and then nothing is done.
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
