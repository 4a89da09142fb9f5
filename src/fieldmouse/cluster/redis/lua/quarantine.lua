-- uses: begin rows hosts agents grant
-- Set aside values of hosts that their holder cannot read.
--
-- ARGV: agent, incarnation, number of values, and for each: host, epoch, field, reason, LIST of keys as signed decimals,
--       value. field `rows`: the rows of these keys; `st`, `le`, `rt`: that of the host's hash; `host`: the whole host
-- Promise: values that the agent does not hold or owe are ignored, so a repeated call changes nothing. URLs whose rows
-- are damaged are settled as `quarantined`, so that the crawl ends without them. Returns their number.
local agent, incarnation = arg(), arg()
local no = refusal(agent, incarnation)
if no then return no end
local id, urls = id_of(agent, incarnation), 0
for _ = 1, number() do
  local host, epoch, field, why, keys, value = arg(), arg(), arg(), arg(), list(), arg()
  local total, check = owes(id, host, epoch)
  local holds = call('HGET', P .. 'held:' .. id, host) == epoch
  if field == 'rows' and total then
    local gone = #keys > 0 and many('SREM', P .. 'k:' .. epoch, keys) or 0
    if gone > 0 then
      set_aside(host, field, why, value)
      settle_damaged(gone)
      trim(id, host, epoch, total, check)
      urls = urls + gone
    end
  elseif field == 'host' and holds then
    local owed = call('SCARD', P .. 'k:' .. epoch)
    settle_damaged(owed)
    call('UNLINK', P .. 'k:' .. epoch, P .. 'o:' .. epoch)
    call('HDEL', P .. 'owe:' .. id, epoch)
    set_host_aside(host, why)
    free(id, host, '', 0)
    urls = urls + owed
  elseif holds and LONGEST[field] then
    local known = fields(P .. 'h:' .. host, field)[1]
    if known then
      set_aside(host, field, why, known)
      call('HDEL', P .. 'h:' .. host, field)
    end
  end
end
return urls
