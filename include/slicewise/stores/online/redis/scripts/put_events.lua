-- Stands before event_list.lua and pending_list.lua, whose one write it is: fields of the hash and members of the list go in,
-- the list is trimmed to what it keeps, the newest that was trimmed becomes the low-water mark, and both keys expire
-- together. sets: field, value, ...; adds: score, member, ...; keeps: range_us, rows, late_us, most; expiry: second
-- (0: never); time: the reply of TIME; stands: the hash's EXPIRETIME. Gives how many were cut by `most`.
local function put_events(hash, list, sets, adds, keeps, expiry, time, stands)
  local range, rows, late, most = keeps[1], keeps[2], keeps[3], keeps[4]
  if #sets > 0 then redis.call('HSET', hash, unpack(sets)) end
  for j = 1, #adds, 1000 do
    redis.call('ZADD', list, unpack(adds, j, math.min(j + 999, #adds)))
  end
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local card = redis.call('ZCARD', list)
  local drop = card
  if range > 0 then
    drop = math.min(drop, redis.call('ZCOUNT', list, '-inf', string.format('(%.0f', now - range)))
  end
  if rows > 0 then
    local before = redis.call('ZCOUNT', list, '-inf', string.format('%.0f', now - late))
    drop = math.min(drop, math.max(0, before - rows))
  end
  local cut = math.max(0, card - drop - most)
  drop = drop + cut
  if drop > 0 then
    local newest = redis.call('ZRANGE', list, drop - 1, drop - 1)
    redis.call('HSET', hash, 'w', string.sub(newest[1], 1, 36))
    redis.call('ZREMRANGEBYRANK', list, 0, drop - 1)
  end
  if expiry > 0 then
    -- GT alone would leave a key without an expiry as it is: for ever
    local until_s = math.max(expiry, stands)
    redis.call('EXPIREAT', hash, until_s)
    redis.call('EXPIREAT', list, until_s)
  else
    redis.call('PERSIST', hash)
    redis.call('PERSIST', list)
  end
  return cut
end

