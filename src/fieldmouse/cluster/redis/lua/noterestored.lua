-- uses: begin
-- Mark all outcomes of an agent as restored, in a rebuild.
--
-- ARGV: agent, its last start, the number of its last message
-- restored  the last start of each agent whose outcomes were restored (hash); `forgave` is that of `takeback`
-- Promise: neither number is ever lowered.
local agent, incarnation, told = arg(), number(), number()
local function raise(name, value)
  if value > sane(call('HGET', P .. name, agent), 0) then
    call('HSET', P .. name, agent, string.format('%.0f', value))
  end
end
raise('restored', incarnation)
raise('forgave', told)
return 1
