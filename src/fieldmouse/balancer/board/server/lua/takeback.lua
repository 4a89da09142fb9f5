-- uses: begin hosts agents
-- Outcomes that an agent takes back: failures that were not the URLs' own.
--
-- ARGV: agent, incarnation, number of this call, host, LIST of keys as signed decimals, LIST of the kinds of their
--       outcomes, blob of their rows
-- forgave     the number of the last call, by agent (hash): the numbers of an agent grow
-- back:AGENT  how often it took a key back, which `kept:AGENT` has as well (hash)
-- Promise: the rows wait and are settled no longer, in one act; repeated it does nothing. Returns how many rows wait.
local agent, incarnation, count = arg(), arg(), number()
local no = refusal(agent, incarnation)
if no then return no end
if count <= tonumber(call('HGET', P .. 'forgave', agent) or 0) then return 0 end
local host, keys, kinds, blob = arg(), list(), list(), arg()
call('HSET', P .. 'forgave', agent, count)
call('RPUSH', P .. 'q:' .. host, blob)
await(host, #keys)
call('HINCRBY', meta, 'settled', -#keys)
for i, key in ipairs(keys) do
  call('HINCRBY', P .. 'back:' .. agent, key, 1)
  if kinds[i] ~= '' then call('HINCRBY', P .. 'kinds', kinds[i], -1) end
end
return #keys
