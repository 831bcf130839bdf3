#!lua flags=allow-oom
-- take_schedules.lua: gives out schedules that something is to be done about.  Nobody else gets them for a while: that keeps replicas from doing
-- the same work, and no more than that, for what they do is safe to do twice.
--
-- args  {limit, hold_ms, ahead_ms}: also those whose time comes within `ahead_ms`
--
-- Replies {now_ms, {{id, look_ms, fields}, …}, wait_ms or false}: `look_ms` is when it is to be looked at, `fields` are as HGETALL gives them;
-- and how long until the next one (0: some are left).

local taken = {}
local rows = redis.call('ZRANGEBYSCORE', K.schedules, '-inf', int(now + args.ahead_ms), 'WITHSCORES', 'LIMIT', 0, args.limit)
for i = 1, #rows, 2 do
  local id, look = rows[i], tonumber(rows[i + 1])
  local fields = redis.call('HGETALL', K.schedule .. id)
  if #fields == 0 then
    redis.call('ZREM', K.schedules, id)
  else
    redis.call('ZADD', K.schedules, int(math.max(now, look) + args.hold_ms), id)
    taken[#taken + 1] = { id, look, fields }
  end
end
local first = redis.call('ZRANGE', K.schedules, 0, 0, 'WITHSCORES')
return cmsgpack.pack({ now, taken, first[2] and math.max(0, tonumber(first[2]) - args.ahead_ms - now) or false })
