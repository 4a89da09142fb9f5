-- Hosts: who holds them, and where they wait.
--
-- h:HOST   n rows that wait; by, e who holds it and under which epoch; p the agent that should visit it;
--          nb, d not before when, and the delay; st, le, rt, rx state, what was learned, robots.txt and its end;
--          w, wu who found it held and should have it next, and until when it is kept for that one;
--          no agents that do not get it from another that it waits for, and until when, in lines;
--          raw how many rows came since its queue was packed last (hash)
-- held:ID  the hosts that an agent holds, with their epochs (hash)
-- r:AGENT  hosts that wait for an agent, and r: those that wait for anybody, by when they are ready (sorted set)
-- A host stands in one of these if and only if it has rows that wait and nobody holds it (see `stand`).

-- Who should visit a host: nobody is sent to an agent that is not there, or about to leave.
local function place_of(agent)
  if agent == '' then return '' end
  local known = fields(P .. 'agent:' .. agent, 'counts', 'draining')
  if known[1] == '1' and known[2] ~= '1' then return agent end
  return ''
end

-- Who should have a host next, if `agent` found it held and still wishes for it; '' for nobody.
local function next_of(host, agent)
  if agent and call('ZSCORE', P .. 'w:' .. agent, host) then return place_of(agent) end
  return ''
end

-- Puts a host with waiting rows and no holder into a queue: that of the agent which should visit it, if the agent is
-- still there, or that of hosts which wait for anybody. The agent may have left since the host was placed with it.
local function stand(host, place, not_before)
  local where = place_of(place or '')
  if where ~= place then call('HSET', P .. 'h:' .. host, 'p', where) end
  call('ZADD', P .. 'r:' .. where, math.max(now, sane(not_before, 0)), host)
end

-- `rows` more wait for a host. It stands up if it was idle.
local function await(host, rows)
  local name = P .. 'h:' .. host
  if add(name, 'n', rows) == rows then
    local known = fields(name, 'by', 'p', 'nb')
    if not known[1] then stand(host, known[2], known[3]) end
  end
end

-- Nobody holds the host any more; it goes to who wished for it, or else to `place`.
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

-- All that `id` owes under an epoch waits again, before all else, but for the keys in `keep`.
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

-- These rows, in a blob with these keys, wait again as far as they are owed.
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

-- What its holder says of a host; a rest that was asked for is not made shorter.
local function luggage(host, state, rest, delay, learned, robots, robots_rest)
  local name = P .. 'h:' .. host
  local ready = math.max(now + rest, sane(fields(name, 'nb')[1], 0))
  call('HSET', name, 'st', state, 'nb', ready, 'd', delay, 'le', learned, 'rt', robots, 'rx', now + robots_rest)
  heed(delay)
end
