-- uses: begin rows hosts agents liveness
-- Hosts with waiting URLs that cannot be granted to any agent, for `cluster status`. It changes nothing.
--
-- ARGV: cursor, `` at first
-- Returns the next cursor, `` at the end; the number of hosts found, and some or all of their names; the number repaired
-- up to now. While there is work only agents are checked, otherwise all hosts, some with each call.
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
