-- Hosts: their holders, and the queues in which they wait.
--
-- h:HOST   n waiting rows; by, e holder and its epoch; p the agent that should visit it;
--          nb, d not before when, and the delay; st, le, rt, rx state, policy data, robots.txt and its end;
--          w, wu agent that wished for it while it was held and gets it next, and until when it is kept for that agent;
--          no agents that must not take it over from agent p, and until when, in lines;
--          raw rows added since its queue was last compressed (hash)
-- held:ID  the hosts that an agent holds, with their epochs (hash)
-- r:AGENT  hosts that wait for an agent, and r: those that wait for any agent, by when they are ready (sorted set)
-- A host is in one of these if and only if it has waiting rows and no holder (see `stand`).

-- The agent, if hosts may be placed at it; '' if it left or is draining.
local function place_of(agent)
  if agent == '' then return '' end
  local known = fields(P .. 'agent:' .. agent, 'counts', 'draining')
  if known[1] == '1' and known[2] ~= '1' then return agent end
  return ''
end

-- Agent that gets a host next, if `agent` wished for it while it was held and still does; '' for none.
local function next_of(host, agent)
  if agent and call('ZSCORE', P .. 'w:' .. agent, host) then return place_of(agent) end
  return ''
end

-- Puts a host with waiting rows and no holder into a queue: that of the agent that should visit it, if the agent is
-- still there, or that of hosts for any agent. The agent may have left since the host was placed at it.
local function stand(host, place, not_before)
  local where = place_of(place or '')
  if where ~= place then call('HSET', P .. 'h:' .. host, 'p', where) end
  call('ZADD', P .. 'r:' .. where, math.max(now, sane(not_before, 0)), host)
end

-- Adds `rows` waiting rows to a host, and puts it into a queue if it was idle.
local function await(host, rows)
  local name = P .. 'h:' .. host
  if add(name, 'n', rows) == rows then
    local known = fields(name, 'by', 'p', 'nb')
    if not known[1] then stand(host, known[2], known[3]) end
  end
end

-- Releases a host; it goes to the agent that wished for it, or else to `place`.
local function free(id, host, place, not_before)
  local name = P .. 'h:' .. host
  local known = fields(name, 'n', 'nb', 'w')
  local wished = next_of(host, known[3])
  local ready = math.max(sane(known[2], 0), not_before)
  if wished ~= '' then
    place = wished
    call('HSET', name, 'wu', math.max(now, ready) + sane(call('HGET', meta, 'longest'), 0))
  end
  call('HDEL', P .. 'held:' .. id, host)
  call('HDEL', name, 'by', 'e')
  call('HSET', name, 'p', place, 'nb', ready)
  if sane(known[1], 0) > 0 then stand(host, place, ready) end
end

-- Lets all URLs that `id` owes under an epoch wait again, before all others, except the keys in `keep`.
local function release(id, host, epoch, keep)
  local total, check = owes(id, host, epoch)
  if not total then return end
  local owed, given, gone = {}, 0, {}
  for _, key in ipairs(call('SMEMBERS', P .. 'k:' .. epoch)) do
    if not keep[key] then owed[key] = true; gone[#gone + 1] = key end
  end
  if #gone == 0 then return end
  local blobs = call('LRANGE', P .. 'o:' .. epoch, 0, -1)
  for i = #blobs, 1, -1 do
    local keys, inner, exclusions = keys_in(blobs[i])
    local left, out = 0, {}
    if not keys then set_aside(host, 'rows', 'it is no block of rows', blobs[i]) end
    for _, key in ipairs(keys or {}) do
      local number = decimal(key)
      if owed[number] then left = left + 1; owed[number] = nil else out[#out + 1] = key end
    end
    if left > 0 then
      local blob = blobs[i]
      if #out > 0 then blob = excluding(inner, exclusions .. table.concat(out), left) end
      call('LPUSH', P .. 'q:' .. host, blob)
      given = given + left
    end
  end
  settle_damaged(#gone - given) -- owed, and in no block
  many('SREM', P .. 'k:' .. epoch, gone)
  trim(id, host, epoch, total, check)
  if given > 0 then await(host, given) end
end

-- Lets these rows, in a blob with these keys, wait again as far as they are owed.
local function put_back(id, host, epoch, blob, numbers)
  local total, check = owes(id, host, epoch)
  if not total or #numbers == 0 then return end
  local keys, inner = keys_in(blob)
  local out, left, owed = {}, {}, P .. 'k:' .. epoch
  for i, key in ipairs(keys) do
    if call('SREM', owed, numbers[i]) == 1 then left[#left + 1] = key else out[#out + 1] = key end
  end
  if #left == 0 then return end
  if #out > 0 then blob = excluding(inner, table.concat(out), #left) end
  call('LPUSH', P .. 'q:' .. host, blob)
  trim(id, host, epoch, total, check)
  await(host, #left)
end

-- Stores the state of a host, as its holder reports it; a rest is never made shorter.
local function store_state(host, state, rest, delay, learned, robots, robots_rest)
  local name = P .. 'h:' .. host
  local ready = math.max(now + rest, sane(fields(name, 'nb')[1], 0))
  call('HSET', name, 'st', state, 'nb', ready, 'd', delay, 'le', learned, 'rt', robots, 'rx', now + robots_rest)
  note_delay(delay)
end
