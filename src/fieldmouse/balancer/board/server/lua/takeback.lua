-- uses: begin hosts agents
-- Outcomes that an agent takes back: failures that were not the URLs' own.
--
-- ARGV: agent, incarnation, number of this call, LIST of kinds and counts in turn, host, how many rows, blob
-- forgave  the number of the last call, by agent (hash): the numbers of an agent grow
-- Promise: the rows wait and are settled no longer, in one act; repeated it does nothing. Returns how many rows wait.
local agent, incarnation, place, kinds = arg(), arg(), number(), list()
local no = refusal(agent, incarnation)
if no then return no end
if place <= tonumber(call('HGET', P .. 'forgave', agent) or 0) then return 0 end
local host, rows, blob = arg(), number(), arg()
call('HSET', P .. 'forgave', agent, place)
call('RPUSH', P .. 'q:' .. host, blob)
await(host, rows)
call('HINCRBY', meta, 'settled', -rows)
for i = 1, #kinds, 2 do call('HINCRBY', P .. 'kinds', kinds[i], -kinds[i + 1]) end
return rows
