-- Writes all of a change or nothing: only if everything that was read still stands.
-- All arguments are read, and all types met, before the first write.
--
-- KEYS: hashes of one slot. ARGV, for each key: n, then n times (field, want), where want is ""
-- (absent), "=" and the value, or "^" and how it begins; then for each key: n, then n times
-- (field, value, expiry second or 0), then m, then m fields to delete, then a partition ("": none) and an offset: the real-time lane's
-- events of the partition up to there go, in whole fields, and of the field that holds the offset its beginning.
-- Reply: -1 where a check failed, else how many sets were left out because they had expired.
local at = 1
local standing = {}
for k = 1, #KEYS do
  local n = tonumber(ARGV[at])
  local fields = {}
  for j = 1, n do fields[j] = ARGV[at + 2 * j - 1] end
  local found = redis.call('HMGET', KEYS[k], unpack(fields))
  for j = 1, n do
    local want, have = ARGV[at + 2 * j], found[j]
    if have then
      local rule = string.byte(want, 1)
      if rule == 61 then
        if #have ~= #want - 1 or string.sub(want, 2) ~= have then return -1 end
      elseif rule == 94 then
        if string.sub(have, 1, #want - 1) ~= string.sub(want, 2) then return -1 end
      else
        return -1
      end
    elseif want ~= '' then
      return -1
    end
  end
  at = at + 1 + 2 * n
end

local now = tonumber(redis.call('TIME')[1])
local expired = 0
local plans = {}
for k = 1, #KEYS do
  local n = tonumber(ARGV[at])
  local sets, latest = {}, 0
  for j = at + 1, at + 3 * n, 3 do
    local expiry = tonumber(ARGV[j + 2])
    if expiry == 0 or expiry > now then
      sets[#sets + 1] = ARGV[j]
      sets[#sets + 1] = ARGV[j + 1]
      if expiry > latest then latest = expiry end
    else
      expired = expired + 1
    end
  end
  at = at + 1 + 3 * n
  local m = tonumber(ARGV[at])
  local deletes = {}
  for j = 1, m do deletes[j] = ARGV[at + j] end
  local partition, reached = ARGV[at + 1 + m], tonumber(ARGV[at + 2 + m])
  if not reached then return redis.error_reply('ERR malformed change') end
  at = at + 3 + m
  -- where all sets have expired the applied offset is not written either, and no applied offset may pass what is taken
  if partition ~= '' and (n == 0 or #sets > 0) then
    local torn = take(KEYS[k], partition, reached, sets, deletes)
    if torn then return redis.error_reply('ERR a torn pending field: ' .. torn .. ' of ' .. KEYS[k]) end
  end
  plans[k] = {sets, latest, deletes}
end
if at ~= #ARGV + 1 then return redis.error_reply('ERR malformed change') end

for k = 1, #KEYS do
  local key, sets, latest, deletes = KEYS[k], plans[k][1], plans[k][2], plans[k][3]
  if #sets > 0 then
    -- GT alone would leave a key without an expiry as it is: for ever
    local stands = -1
    if latest > 0 then stands = redis.call('EXPIRETIME', key) end
    for j = 1, #sets, 1000 do
      redis.call('HSET', key, unpack(sets, j, math.min(j + 999, #sets)))
    end
    if latest > 0 and latest > stands then redis.call('EXPIREAT', key, latest) end
  end
  for j = 1, #deletes, 1000 do
    redis.call('HDEL', key, unpack(deletes, j, math.min(j + 999, #deletes)))
  end
end
return expired
