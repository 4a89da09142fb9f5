-- wrk asks for the pages of many hosts: each of its threads talks to one address.
-- PAGES names a folder: `hosts` has a line "address port" for each host, and a file
-- named like the address has that host's paths, one a line.

local folder = os.getenv("PAGES")
local order, threads = {}, 0

function setup(thread)
  if threads == 0 then
    for line in io.lines(folder .. "/hosts") do
      order[#order + 1] = { line:match("^(%S+) (%S+)$") }
    end
  end
  local host = order[threads % #order + 1]
  threads = threads + 1
  thread.addr = wrk.lookup(host[1], host[2])[1]
  thread:set("address", host[1])
  thread:set("port", host[2])
end

local requests, at = {}, 0

function init(args)
  local headers = { ["Host"] = address .. ":" .. port, ["Accept-Encoding"] = "gzip, br, zstd" }
  for path in io.lines(folder .. "/" .. address) do
    requests[#requests + 1] = wrk.format("GET", path, headers)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end
