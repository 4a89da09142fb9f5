-- uses: begin rows hosts agents
-- Lease addresses, each for one host visit.
--
-- ARGV: agent, incarnation, number of requests, and for each: address, host, epoch (0: it does not hold the host), delay
-- a:ADDRESS  by, nb, d: holder, not before when, and the delay to keep if the holder dies (hash)
-- Promise: one agent has an address at a time. The address of a dead holder is free after the holder's lease and the
-- delay. Returns for each whether it is granted, its rest, and its holder.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
fence_overdue(agent)
local id, answers = id_of(agent, incarnation), {}
local overdue = now > sane(call('HGET', P .. 'agent:' .. agent, 'deadline'), 0)
for i = 1, number() do
  local address, host, epoch, delay = arg(), arg(), arg(), number()
  local name = P .. 'a:' .. address
  local known = fields(name, 'by', 'nb', 'd')
  local holder, ready, its = known[1], math.max(calm, sane(known[2], 0)), sane(known[3], 0)
  if overdue or (epoch ~= '0' and call('HGET', P .. 'held:' .. id, host) ~= epoch) then
    answers[i] = { 0, 50, '' }
  else
    local counts = false
    if holder and holder ~= id then
      local start, whose = string.match(holder, '^(%d+):(.*)$')
      counts = start and not refusal(whose, start)
      if counts then
        answers[i] = { 0, math.max(its, 50), whose }
      else
        ready = math.max(ready, sane(call('ZSCORE', P .. 'fallen', holder), now) + its)
      end
    end
    if not counts and holder ~= id and now < ready then
      answers[i] = { 0, ready - now, '' }
    elseif not counts then
      call('HSET', name, 'by', id, 'd', delay)
      note_delay(delay)
      answers[i] = { 1, 0, '' }
    end
  end
end
return answers
