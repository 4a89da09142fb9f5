-- uses: begin rows hosts agents liveness
-- Hosts with waiting URLs that no agent can be granted, for `cluster status`. It changes nothing.
--
-- ARGV: where to go on, `` at first
-- Returns where to go on, `` at the end; how many hosts were found, and some or all of them by name; how many were
-- repaired so far. While there is work only agents are looked at, otherwise all hosts, some with each call.
local cursor, count, hosts = arg(), 0, {}
local repaired = sane(call('HGET', meta, 'repaired'), 0)
if cursor == '' then
  each_stray(
    function(agent)
      count = count + call('ZCARD', P .. 'r:' .. agent)
      for _, host in ipairs(call('ZRANGE', P .. 'r:' .. agent, 0, 4)) do hosts[#hosts + 1] = host end
    end,
    function(_, held)
      count = count + #held
      for i = 1, math.min(#held, 5) do hosts[#hosts + 1] = held[i] end
    end)
  if count > 0 or not is_idle() then return { '', count, hosts, repaired } end
  cursor = '0'
end
cursor, hosts = unqueued(cursor)
return { cursor == '0' and '' or cursor, #hosts, hosts, repaired }
