-- Adds events to an entity's list and trims it, or does nothing: only if everything that was read still stands.
-- All arguments are read, and all types met, before the first write.
--
-- KEYS: the list's hash (applied offsets, low-water mark), its sorted set. ARGV: n, then n times (field, want) as in
-- compare_and_set.lua; n, then n times (field, value); range_us, rows, late_us, most (what the list keeps), expiry
-- second (0: never); then (score, member) of each event.
-- Reply: -1 where a check failed, -2 where all of it has expired, else how many events were cut by `most`.
local hash, list = KEYS[1], KEYS[2]
local n = tonumber(ARGV[1])
local at = 2
local fields = {}
for j = 1, n do fields[j] = ARGV[at + 2 * j - 2] end
local found = redis.call('HMGET', hash, unpack(fields))
for j = 1, n do
  local want, have = ARGV[at + 2 * j - 1], found[j]
  if have then
    if string.byte(want, 1) ~= 61 or string.sub(want, 2) ~= have then return -1 end
  elseif want ~= '' then
    return -1
  end
end
at = at + 2 * n
local m = tonumber(ARGV[at])
local sets = {}
for j = 1, 2 * m do sets[j] = ARGV[at + j] end
at = at + 1 + 2 * m
local range, rows, late = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
local most, expiry = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
at = at + 5
if (#ARGV - at + 1) % 2 ~= 0 then return redis.error_reply('ERR malformed events') end
local adds = {}
for j = at, #ARGV, 2 do
  if not tonumber(ARGV[j]) then return redis.error_reply('ERR malformed score') end
  adds[#adds + 1] = ARGV[j]
  adds[#adds + 1] = ARGV[j + 1]
end
local time = redis.call('TIME')
local stands = redis.call('EXPIRETIME', hash)
redis.call('ZCARD', list)
if expiry > 0 and expiry <= tonumber(time[1]) and stands == -2 then return -2 end

return put_events(hash, list, sets, adds, {range, rows, late, most}, expiry, time, stands)
