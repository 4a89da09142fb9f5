-- Grant of a held host, as the agent receives it: host, epoch, rows left, rest, delay, state, learned, robots.txt, how
-- long that is valid, and the blobs.
local sent = 0 -- bytes

-- Longest values of a host's hash: a longer one is set aside, because agents reject it.
local LONGEST = { st = 65536, le = 65536, rt = 513024 }
local function within(host, field, value)
  if not value or #value <= LONGEST[field] then return value or '' end
  set_aside(host, field, 'it is too long', value)
  call('HDEL', P .. 'h:' .. host, field)
  return ''
end

-- Settles all waiting rows of a damaged host.
local function set_host_aside(host, why)
  local name, queue = P .. 'h:' .. host, P .. 'q:' .. host
  settle_damaged(sane(fields(name, 'n')[1], 0))
  set_aside(host, 'host', why, '')
  call('UNLINK', queue)
  call('HSET', name, 'n', 0, 'raw', 0)
end

local function is_host(host) return #host <= 320 and string.find(host, '^https?://[!-~]+$') ~= nil end

-- A duration, limited to ten years.
local function bounded(duration) return math.max(0, math.min(315360000000, duration)) end

local function grant(id, host, epoch, urls)
  local blobs, rows = take(id, host, epoch, urls)
  local name, queue = P .. 'h:' .. host, P .. 'q:' .. host
  local its = fields(name, 'nb', 'd', 'st', 'le', 'rt', 'rx', 'n')
  local known, queued = sane(its[7], 0), call('LLEN', queue)
  local left = math.max(0, known - rows)
  if queued == 0 then -- the missing rows were damaged
    settle_damaged(left)
    left = 0
  elseif left == 0 then -- the count was damaged
    left = queued
  end
  if left ~= known or its[7] ~= string.format('%.0f', known) then call('HSET', name, 'n', left) end
  if left == 0 then call('HSET', name, 'raw', 0) end
  local robots_rest = math.max(0, math.min(86400000, sane(its[6], 0) - now)) -- a day (RFC 9309)
  local robots = robots_rest > 0 and within(host, 'rt', its[5]) or ''
  local state, learned = within(host, 'st', its[3]), within(host, 'le', its[4])
  sent = sent + #robots + #state + #learned
  for _, blob in ipairs(blobs) do sent = sent + #blob end
  return {
    host, epoch, left, bounded(sane(its[1], 0) - now), bounded(sane(its[2], 0)), state, learned, robots, robots_rest,
    blobs,
  }
end
