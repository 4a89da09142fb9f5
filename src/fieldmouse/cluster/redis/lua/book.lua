-- uses: begin rows hosts agents unsettled
-- Acknowledge durable outcomes.
--
-- ARGV: agent, incarnation, LIST of kinds, packed URLs, number of this call, number of leases, and for each: host,
--       epoch, LIST of keys as signed decimals, and a digit for each of them: its index in the kinds, from 0
-- kept:AGENT  for each call that settled anything: mask (`` for all), kinds, digits, packed URLs (list)
-- told        number of the last call, by ID (hash): the numbers of an agent grow
-- Promise: a key is settled once. A key that is no longer owed was acknowledged before: nothing else removes it while
-- its agent is active. Nothing counts under an epoch that the server may have lost. Pages are taken off the reservation
-- of the agent. Returns for each lease whether it counted.
local agent, incarnation, names, urls, place = arg(), arg(), list(), arg(), number()
local no = refusal(agent, incarnation)
if no then return no end
local unsettled = sane(call('HGET', meta, 'unsettled'), 0)
local id, answers, mask, settled, sums, kinds = id_of(agent, incarnation), {}, {}, 0, {}, {}

local function forgotten(epoch)
  local gaps = call('LRANGE', P .. 'gaps', 0, -1)
  for i = 1, #gaps, 2 do
    if sane(gaps[i], math.huge) <= epoch and epoch <= sane(gaps[i + 1], 0) then return true end
  end
  return false
end

for i = 1, number() do
  local host, epoch, keys, digits = arg(), arg(), list(), arg()
  local total, check = owes(id, host, epoch)
  kinds[i] = digits
  if total then
    local owed, fresh = P .. 'k:' .. epoch, 0
    for j, key in ipairs(keys) do
      local counted, kind = call('SREM', owed, key), names[tonumber(string.sub(digits, j, j)) + 1]
      fresh = fresh + counted
      if unsettled > 0 and counted == 1 and redis.pcall('SREM', unsettled_in(key), key) == 1 then
        unsettled = add(meta, 'unsettled', -1)
      end
      if kind ~= '' then sums[kind] = (sums[kind] or 0) + counted end
      mask[#mask + 1] = counted
    end
    settled = settled + fresh
    -- At once: a script that fails later is not undone, and the crawl would never end.
    if fresh > 0 then add(meta, 'settled', fresh) end
    if fresh > 0 then trim(id, host, epoch, total, check) end
    answers[i] = 1
  else
    for _ = 1, #keys do mask[#mask + 1] = 0 end
    answers[i] = forgotten(tonumber(epoch)) and 0 or 1
  end
end
if place > sane(fields(P .. 'told', id)[1], 0) then call('HSET', P .. 'told', id, place) end
if settled > 0 then
  for kind, count in pairs(sums) do
    if count > 0 then add(P .. 'kinds', kind, count) end
  end
  if sums.page then
    local had = sane(call('HGET', P .. 'agent:' .. agent, 'pages'), 0)
    reserve(agent, math.max(0, had - sums.page))
  end
  if urls ~= '' then
    if settled == #mask then mask = {} end
    call('RPUSH', P .. 'kept:' .. agent, cmsgpack.pack({ table.concat(mask), names, table.concat(kinds), urls }))
  end
end
return answers
