-- What compare_and_set.lua does, for the changes of a micro-batch, each of one entity and for itself: the same checks and the
-- same writes in a third of the words. All types are met before a change's first write; an error ends the call, with what the
-- changes before it wrote. The entities of a call have keys of several slots: a node is a server, not a cluster's shard.
--
-- KEYS: for each change its hot hash, then its days' hashes. ARGV: the field of the applied offset, and the partition whose
-- pending events go up to the new one ("": there must be none); then for each change: its days, its running partials, the want
-- of the applied offset, the new one and its expiry second or 0; the want of each day's hours; fields, wants, values and expiry
-- seconds of the partials. A want is "" (absent), "=" and the value, or "^" and how it begins.
-- Reply: for each change -1 where a check failed, else how many sets were left out because they had expired.
local call, sub, byte = redis.call, string.sub, string.byte
local applied, partition = ARGV[1], ARGV[2]
local now = tonumber(call('TIME')[1])
local at, before = 3, 0
local replies = {}

local function stands(want, have)
  if not have then return want == '' end
  if byte(want, 1) == 61 then return #have == #want - 1 and sub(want, 2) == have end
  return byte(want, 1) == 94 and sub(have, 1, #want - 1) == sub(want, 2)
end

while at <= #ARGV do
  local days, n, reached, expiry = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), ARGV[at + 3], tonumber(ARGV[at + 4])
  if not n or not expiry then return redis.error_reply('ERR malformed change') end
  local hot, hours = KEYS[before + 1], at + 5
  local fields, wants, values, expiries = hours + days, hours + days + n, hours + days + 2 * n, hours + days + 3 * n
  if expiries + n > #ARGV + 1 or before + 1 + days > #KEYS then return redis.error_reply('ERR malformed change') end

  local found = call('HMGET', hot, applied, 'm', unpack(ARGV, fields, wants - 1))
  local good = stands(ARGV[at + 2], found[1]) and (partition ~= '' or not found[2])
  for j = 1, n do
    good = good and stands(ARGV[wants + j - 1], found[j + 2])
  end
  for d = 1, days do
    good = good and stands(ARGV[hours + d - 1], call('HGET', KEYS[before + 1 + d], 'c'))
  end

  local expired = -1
  if good then
    local latest, left = 0, 0
    for j = expiries, expiries + n - 1 do
      local second = tonumber(ARGV[j])
      if second == 0 or second > now then
        left = left + 1
        if second > latest then latest = second end
      end
    end
    local advances = expiry == 0 or expiry > now
    expired = n - left + (advances and 0 or 1)
    if advances and expiry > latest then latest = expiry end

    local sets, deletes
    if partition ~= '' or left ~= 1 or n ~= 1 or not advances then
      sets, deletes = {}, {}
      for j = 0, n - 1 do
        local second = tonumber(ARGV[expiries + j])
        if second == 0 or second > now then
          sets[#sets + 1] = ARGV[fields + j]
          sets[#sets + 1] = ARGV[values + j]
        end
      end
      if advances then
        sets[#sets + 1] = applied
        sets[#sets + 1] = reached
      end
      -- where all sets have expired the applied offset is not written either, and no applied offset may pass what is taken
      if partition ~= '' and #sets > 0 then
        local torn = take(hot, partition, tonumber(reached), sets, deletes)
        if torn then return redis.error_reply('ERR a torn pending field: ' .. torn .. ' of ' .. hot) end
      end
    end

    if not sets or #sets > 0 then
      -- GT alone would leave a key without an expiry as it is: for ever
      local expires = latest > 0 and call('EXPIRETIME', hot)
      if sets then
        for j = 1, #sets, 1000 do call('HSET', hot, unpack(sets, j, math.min(j + 999, #sets))) end
        for j = 1, #deletes, 1000 do call('HDEL', hot, unpack(deletes, j, math.min(j + 999, #deletes))) end
      else
        call('HSET', hot, ARGV[fields], ARGV[values], applied, reached)
      end
      if expires and latest > expires then call('EXPIREAT', hot, latest) end
    end
  end
  replies[#replies + 1] = expired
  at, before = expiries + n, before + 1 + days
end
return replies
