-- Appends events of one entity and partition to its pending fields: each once, none at or below the applied offset, none that has expired.
-- At the bound the rest is skipped, and the skip mark says from which offset to which.
-- All arguments are read, and all types met, before the first write.
--
-- KEYS: hot. ARGV: applied offset field, skip field, partition, bound, events and bytes of a field; then for each event (1,000 at most),
-- in offset order: offset, member, expiry second (0: never). Calls for one entity and partition come in offset order too:
-- beyond the applied offset all was brought up to the last offset of the newest field.
-- Reply: how many were written (or stood), already applied, expired, skipped.
local hot, partition, bound = KEYS[1], ARGV[3], tonumber(ARGV[4])
local most_events, most_bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
local total = (#ARGV - 6) / 3
if not (bound and most_events and most_bytes) or total ~= math.floor(total) or total > 1000 then
  return redis.error_reply('ERR malformed pending events')
end
local head, prefix = 'o:' .. partition, 'q:' .. partition .. ':'
local found = redis.call('HMGET', hot, ARGV[1], ARGV[2], 'm', head)
local applied, count = tonumber(found[1] or '-1'), tonumber(found[3] or '0')
local skip_first, skip_last
if found[2] then
  skip_first, skip_last = string.match(found[2], '^(%d+):(%d+)$')
  if skip_last and tonumber(skip_last) <= applied then skip_last = nil end -- the micro-batch lane has passed what was skipped
end

-- the newest field: what it holds, and what is appended to it
local oldest, newest, last = '0', -1, -1
local n, size, old_sizes, old_body = 0, 0, '', ''
if found[4] then
  oldest, newest = string.match(found[4], '^(%d+):(%d+)$')
  local value = newest and redis.call('HGET', hot, prefix .. newest)
  local torn = not value or #value < 12
  if not torn then
    newest, last, n = tonumber(newest), struct.unpack('<I8I4', value)
    torn = n == 0 or #value < 12 + 4 * n
  end
  if torn then return redis.error_reply('ERR a torn pending field: the newest of ' .. partition .. ' of ' .. hot) end
  size, old_sizes, old_body = #value, string.sub(value, 13, 12 + 4 * n), string.sub(value, 13 + 4 * n)
end
local sizes, members, sets, before = {}, {}, {}, newest

local function close()
  if #members == 0 then return end
  sets[#sets + 1] = prefix .. newest
  sets[#sets + 1] = struct.pack('<I8I4', last, n) .. old_sizes .. table.concat(sizes) .. old_body .. table.concat(members)
end

local now = tonumber(redis.call('TIME')[1])
local already_applied, expired, skipped, first, latest = 0, 0, 0, nil, 0
local skip_to
for j = 7, #ARGV, 3 do
  local offset, member, expiry = tonumber(ARGV[j]), ARGV[j + 1], tonumber(ARGV[j + 2])
  if not offset or not expiry then return redis.error_reply('ERR malformed pending event') end
  if offset <= applied then
    already_applied = already_applied + 1
  elseif expiry ~= 0 and expiry <= now then
    expired = expired + 1
  else
    if offset <= last then -- it came before: it stands, or was skipped
      if skip_last and offset >= tonumber(skip_first) and offset <= tonumber(skip_last) then skipped = skipped + 1 end
    elseif count < bound then
      if newest < 0 or n >= most_events or size + 4 + #member > most_bytes then
        close()
        newest, n, size, old_sizes, old_body, sizes, members = newest + 1, 0, 12, '', '', {}, {}
      end
      sizes[#sizes + 1], members[#members + 1] = struct.pack('<I4', #member), member
      count, n, size, last = count + 1, n + 1, size + 4 + #member, offset
    else
      skipped, first, skip_to = skipped + 1, first or ARGV[j], ARGV[j]
    end
    if expiry > latest then latest = expiry end
  end
end
local written = total - already_applied - expired - skipped
if written + skipped == 0 then return {0, already_applied, expired, 0} end
close()

-- GT alone would leave a key without an expiry as it is: for ever
local stands = latest > 0 and redis.call('EXPIRETIME', hot) or 0
if #sets > 0 then
  sets[#sets + 1] = 'm'
  sets[#sets + 1] = count
end
if newest ~= before then
  sets[#sets + 1] = head
  sets[#sets + 1] = oldest .. ':' .. newest
end
if first then
  if skip_last then -- a skip that the micro-batch lane has not passed yet
    if tonumber(skip_first) < tonumber(first) then first = skip_first end
    if tonumber(skip_last) > tonumber(skip_to) then skip_to = skip_last end
  end
  sets[#sets + 1] = ARGV[2]
  sets[#sets + 1] = first .. ':' .. skip_to
end
if #sets > 0 then redis.call('HSET', hot, unpack(sets)) end
if latest > 0 and latest > stands then redis.call('EXPIREAT', hot, latest) end
return {written, already_applied, expired, skipped}
