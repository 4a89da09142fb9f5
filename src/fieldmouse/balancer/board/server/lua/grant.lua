-- Rows of a host that an agent holds, as they are told to it: host, epoch, rows left, rest, delay, state, learned,
-- robots.txt, how long that holds, and the blobs.
local function grant(id, host, epoch, urls)
  local blobs, rows = take(id, host, epoch, urls)
  local name = P .. 'h:' .. host
  local left = 0
  if rows > 0 then left = call('HINCRBY', name, 'n', -rows) end
  if left == 0 then call('HSET', name, 'raw', 0) end
  local its = call('HMGET', name, 'nb', 'd', 'st', 'le', 'rt', 'rx')
  local robots_rest = math.max(0, tonumber(its[6] or 0) - now)
  return {
    host, epoch, left, math.max(0, tonumber(its[1] or 0) - now), its[2] or 0, its[3] or '', its[4] or '',
    robots_rest > 0 and its[5] or '', robots_rest, blobs,
  }
end
