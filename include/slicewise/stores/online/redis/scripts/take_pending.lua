-- Adds to sets and deletes what takes the pending events of a partition up to an offset; gives the field that is torn, if any.
local function take(key, partition, reached, sets, deletes)
  local head = 'o:' .. partition
  local found = redis.call('HMGET', key, head, 'm')
  if not found[1] then return end
  local oldest, newest = string.match(found[1], '^(%d+):(%d+)$')
  if not newest then return head end
  oldest, newest = tonumber(oldest), tonumber(newest)
  local at, gone = oldest, 0
  while at <= newest do
    local name = 'q:' .. partition .. ':' .. at
    local value = redis.call('HGET', key, name)
    if not value or #value < 12 then return name end
    local last, n = struct.unpack('<I8I4', value)
    if n == 0 or #value < 12 + 4 * n then return name end
    if last > reached then
      local cut, from = 0, 13 + 4 * n -- an offset begins 28 bytes into its member
      while true do
        if cut == n or #value < from + 35 then return name end
        if struct.unpack('>I8', value, from + 28) > reached then break end
        from, cut = from + struct.unpack('<I4', value, 13 + 4 * cut), cut + 1
      end
      if cut > 0 then
        sets[#sets + 1] = name
        sets[#sets + 1] = struct.pack('<I8I4', last, n - cut)
          .. string.sub(value, 13 + 4 * cut, 12 + 4 * n) .. string.sub(value, from)
      end
      gone = gone + cut
      break
    end
    deletes[#deletes + 1] = name
    at, gone = at + 1, gone + n
  end
  if at > newest then
    deletes[#deletes + 1] = head
  elseif at > oldest then
    sets[#sets + 1] = head
    sets[#sets + 1] = at .. ':' .. newest
  end
  local left = tonumber(found[2] or '0') - gone
  if left <= 0 then
    deletes[#deletes + 1] = 'm'
  elseif gone > 0 then
    sets[#sets + 1] = 'm'
    sets[#sets + 1] = left
  end
end
