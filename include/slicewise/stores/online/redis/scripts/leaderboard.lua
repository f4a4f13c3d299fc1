-- Writes a leaderboard, unless one that is as new or newer stands: of a newer deployment, window end or offset vector.
--
-- KEYS: the leaderboard. ARGV: its order (digits of one width, so that text compares as numbers do), its bytes,
-- milliseconds until it expires. Reply: 1 if it was written.
local have = redis.call('HGET', KEYS[1], 'o')
if have and have >= ARGV[1] then return 0 end
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], 'o', ARGV[1], 'b', ARGV[2], 't', now[1] .. string.format('%06d', now[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
