-- Writes events of one entity and place as tail fields: each once, none at or below the guard, none that has expired.
-- At the bound the rest is skipped, and the skip mark says from which offset to which.
-- All arguments are read, and all types met, before the first write.
--
-- KEYS: hot. ARGV: guard field, skip field, bound; then for each event (1,000 at most), in offset order: offset, field,
-- value, expiry second (0: never). Calls for one entity and place come in offset order too: fields beyond the guard lack none.
-- Reply: how many were written (or stood), known, expired, skipped.
local hot, bound = KEYS[1], tonumber(ARGV[3])
local total = (#ARGV - 3) / 4
if not bound or total ~= math.floor(total) or total > 1000 then return redis.error_reply('ERR malformed tail') end
local names = {ARGV[1], ARGV[2], 'n'}
for j = 1, total do names[j + 3] = ARGV[4 * j + 1] end
local found = redis.call('HMGET', hot, unpack(names))
local guard, count = tonumber(found[1] or '-1'), tonumber(found[3] or '0')
local now = tonumber(redis.call('TIME')[1])

local sets, known, expired, written = {}, 0, 0, 0
local latest, first, last = 0, nil, nil
for j = 1, total do
  local offset, expiry = tonumber(ARGV[4 * j]), tonumber(ARGV[4 * j + 3])
  if not offset or not expiry then return redis.error_reply('ERR malformed event of a tail') end
  if offset <= guard then
    known = known + 1
  elseif expiry ~= 0 and expiry <= now then
    expired = expired + 1
  else
    if found[j + 3] then
      written = written + 1
    elseif count < bound then
      written, count = written + 1, count + 1
      sets[#sets + 1] = ARGV[4 * j + 1]
      sets[#sets + 1] = ARGV[4 * j + 2]
    else
      first, last = first or ARGV[4 * j], ARGV[4 * j]
    end
    if expiry > latest then latest = expiry end
  end
end
local skipped = total - known - expired - written
if written + skipped == 0 then return {0, known, expired, 0} end

-- GT alone would leave a key without an expiry as it is: for ever
local stands = latest > 0 and redis.call('EXPIRETIME', hot) or 0
if #sets > 0 then
  sets[#sets + 1] = 'n'
  sets[#sets + 1] = count
end
if first then
  local had_first, had_last = string.match(found[2] or '', '^(%d+):(%d+)$')
  if had_last and tonumber(had_last) > guard then -- a skip that the fold has not passed yet
    if tonumber(had_first) < tonumber(first) then first = had_first end
    if tonumber(had_last) > tonumber(last) then last = had_last end
  end
  sets[#sets + 1] = ARGV[2]
  sets[#sets + 1] = first .. ':' .. last
end
if #sets > 0 then redis.call('HSET', hot, unpack(sets)) end
if latest > 0 and latest > stands then redis.call('EXPIREAT', hot, latest) end
return {written, known, expired, skipped}
