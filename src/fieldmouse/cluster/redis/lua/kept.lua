-- uses: begin
-- Oldest kept batch of an agent. ARGV: agent
-- Returns nothing if there is none; else the batch as `book` stores it, and its digest.
local kept = call('LINDEX', P .. 'kept:' .. arg(), 0)
if not kept then return {} end
local sound, its = pcall(cmsgpack.unpack, kept)
if not sound or type(its) ~= 'table' or type(its[2]) ~= 'table' then its = { '', {}, '', '' } end
return { its[1], its[2], its[3], its[4], redis.sha1hex(kept) }
