-- uses: begin hosts unsettled
-- Let the URLs of one acknowledged batch of a lost agent wait again.
--
-- ARGV: agent, digest of its oldest kept batch, LIST of keys in it that the agent retried itself, number of hosts, and
--       for each: host, LIST of keys as signed decimals, LIST of the kinds of their outcomes, blob of their rows
-- Promise: atomically the rows wait, are no longer settled, and the batch is dropped; a repeated call does nothing.
-- Returns the number of URLs; or a list of keys that already wait again, if there are any, and then nothing is done.
local agent, digest, back, parts = arg(), arg(), list(), {}
local kept = call('LINDEX', P .. 'kept:' .. agent, 0)
if not kept or redis.sha1hex(kept) ~= digest then return 0 end
local known = {}
for i = 1, number() do
  parts[i] = { arg(), list(), list(), arg() }
  for _, key in ipairs(waiting_again(parts[i][2])) do known[#known + 1] = key end
end
if #known > 0 then return known end
call('LPOP', P .. 'kept:' .. agent)
for _, key in ipairs(back) do
  if call('HINCRBY', P .. 'back:' .. agent, key, -1) <= 0 then call('HDEL', P .. 'back:' .. agent, key) end
end
local sum = 0
for _, part in ipairs(parts) do
  unsettle(part[1], part[2], part[3], part[4])
  sum = sum + #part[2]
end
return sum
