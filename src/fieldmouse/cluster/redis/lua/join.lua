-- uses: begin rows hosts agents
-- Register a start of an agent.
--
-- ARGV: agent, incarnation, lease
-- Promise: at most one start of an agent is active. An older one is fenced; its hosts wait until its lease is over.
-- A request to drain that no start has received holds for the new one, unless the agent had left.
-- Returns whether all leases of fenced agents are released.
local agent, incarnation, lease = arg(), arg(), number()
local name = P .. 'agent:' .. agent
local known = fields(name, 'inc', 'counts', 'deadline', 'draining', 'heard')
if known[1] and sane(known[1], 0) >= sane(incarnation, 0) then
  local no = refusal(agent, incarnation)
  if no then return no end
else
  if known[2] == '1' then fence(agent, known[1], known[3], false) end
  local pending = known[4] == '1' and known[5] ~= '1' and call('ZSCORE', P .. 'names', agent)
  call('DEL', name)
  if pending then call('HSET', name, 'draining', '1') end
  call('HSET', name, 'inc', incarnation, 'counts', '1')
  call('SREM', P .. 'moving', agent)
end
call('ZADD', P .. 'names', 0, agent)
call('SREM', P .. 'left', agent)
extend(agent, lease)
fence_overdue('')
return sweep(64)
