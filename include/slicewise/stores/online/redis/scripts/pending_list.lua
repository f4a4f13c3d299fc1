-- Adds events of one entity and partition to its event list, trims it, and moves the applied offset to the last of them.
-- All arguments are read, and all types met, before the first write.
--
-- KEYS: the list's hash (applied offsets, low-water mark), its sorted set. ARGV: applied offset field; range_us, rows, late_us, most (what
-- the list keeps), expiry second of the newest (0: never); then for each event, in offset order: offset, score, member.
-- Calls for one entity and partition come in offset order too: what the applied offset has passed was brought.
-- Reply: how many were written, already applied (at or below the applied offset), trimmed (at or below the low-water mark, or all too old),
-- cut by `most`.
local hash, list, applied_field = KEYS[1], KEYS[2], ARGV[1]
local range, rows, late = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local most, expiry = tonumber(ARGV[5]), tonumber(ARGV[6])
if not (range and rows and late and most and expiry) or (#ARGV - 6) % 3 ~= 0 then
  return redis.error_reply('ERR malformed pending events')
end
local found = redis.call('HMGET', hash, applied_field, 'w')
local applied, low = tonumber(found[1] or '-1'), found[2]

-- Lua compares strings by the server's locale
local function above(member)
  for at = 1, 36 do
    local a, b = string.byte(member, at), string.byte(low, at)
    if a ~= b then return a > b end
  end
  return false
end

local adds, already_applied, trimmed, last = {}, 0, 0, nil
for j = 7, #ARGV, 3 do
  local offset, member = tonumber(ARGV[j]), ARGV[j + 2]
  if not offset or not tonumber(ARGV[j + 1]) or #member < 36 then
    return redis.error_reply('ERR malformed pending event')
  end
  if offset <= applied then
    already_applied = already_applied + 1
  else
    last = ARGV[j]
    if low and not above(member) then
      trimmed = trimmed + 1
    else
      adds[#adds + 1] = ARGV[j + 1]
      adds[#adds + 1] = member
    end
  end
end
if not last then return {0, already_applied, 0, 0} end
local time = redis.call('TIME')
local stands = redis.call('EXPIRETIME', hash)
redis.call('ZCARD', list)
local written = #adds / 2
if expiry > 0 and expiry <= tonumber(time[1]) and stands == -2 then return {0, already_applied, trimmed + written, 0} end

local cut = put_events(hash, list, {applied_field, last}, adds, {range, rows, late, most}, expiry, time, stands)
return {written, already_applied, trimmed, cut}
