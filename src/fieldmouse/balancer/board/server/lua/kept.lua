-- uses: begin
-- The oldest of what an agent booked and the board kept. ARGV: agent
-- Returns nothing if there is none; else as `book` keeps it, and a digest.
local kept = call('LINDEX', P .. 'kept:' .. arg(), 0)
if not kept then return {} end
local sound, its = pcall(cmsgpack.unpack, kept)
if not sound or type(its) ~= 'table' or type(its[2]) ~= 'table' then its = { '', {}, '', '' } end
return { its[1], its[2], its[3], its[4], redis.sha1hex(kept) }
