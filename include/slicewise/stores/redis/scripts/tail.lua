-- Writes events of one entity and place as tail fields: each once, none at or below the guard, none that has expired.
-- At the bound the rest is skipped, and the skip mark says from which offset to which.
-- All arguments are read, and all types met, before the first write.
--
-- KEYS: hot. ARGV: guard field, skip field, bound; then for each event, in offset order: offset, field, value, expiry
-- second (0: never). Calls for one entity and place come in offset order too: fields beyond the guard lack none.
-- Reply: how many were written (or stood), known, expired, skipped.
local hot, guard_field, skip_field = KEYS[1], ARGV[1], ARGV[2]
local bound = tonumber(ARGV[3])
if not bound or (#ARGV - 3) % 4 ~= 0 then return redis.error_reply('ERR malformed tail') end
local found = redis.call('HMGET', hot, guard_field, skip_field, 'n')
local guard, count = tonumber(found[1] or '-1'), tonumber(found[3] or '0')
local now = tonumber(redis.call('TIME')[1])

local events, latest, known, expired = {}, 0, 0, 0
for j = 4, #ARGV, 4 do
  local offset, expiry = tonumber(ARGV[j]), tonumber(ARGV[j + 3])
  if not offset or not expiry then return redis.error_reply('ERR malformed event of a tail') end
  if offset <= guard then
    known = known + 1
  elseif expiry ~= 0 and expiry <= now then
    expired = expired + 1
  else
    events[#events + 1] = j
    if expiry > latest then latest = expiry end
  end
end
if #events == 0 then return {0, known, expired, 0} end
-- GT alone would leave a key without an expiry as it is: for ever
local stands = latest > 0 and redis.call('EXPIRETIME', hot) or 0

local written, new, first, last = 0, 0, nil, nil
for _, j in ipairs(events) do
  if count + new < bound or redis.call('HEXISTS', hot, ARGV[j + 1]) == 1 then
    new = new + redis.call('HSET', hot, ARGV[j + 1], ARGV[j + 2])
    written = written + 1
  else
    first, last = first or ARGV[j], ARGV[j]
  end
end
if new > 0 then redis.call('HINCRBY', hot, 'n', new) end
if first then
  local had_first, had_last = string.match(found[2] or '', '^(%d+):(%d+)$')
  if had_last and tonumber(had_last) > guard then -- a skip that the fold has not passed yet
    if tonumber(had_first) < tonumber(first) then first = had_first end
    if tonumber(had_last) > tonumber(last) then last = had_last end
  end
  redis.call('HSET', hot, skip_field, first .. ':' .. last)
end
if latest > 0 and latest > stands then redis.call('EXPIREAT', hot, latest) end
return {written, known, expired, #events - written}
