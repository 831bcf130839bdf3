#!lua flags=allow-oom
-- trim.lua: shortens the history, never past what the projector has applied.
--
-- args  {before_ms, max_bytes, chunk}: events older than `before_ms` go, and as many more as the stream is larger than `max_bytes`;
--       at most about `chunk` of each, whole nodes of the stream at a time
--
-- Replies the number of events removed.

-- MINID keeps the event it names.  The whole id counts, not its millisecond: a batch has thousands of events in one.
local projected = redis.call('GET', K.projected) or '0-0'
local oldest = args.before_ms <= tonumber(string.match(projected, '^%d+')) and int(args.before_ms) or projected
local removed = redis.call('XTRIM', K.events, 'MINID', '~', oldest, 'LIMIT', args.chunk)

local bytes = redis.call('MEMORY', 'USAGE', K.events) or 0
if bytes > args.max_bytes then
  local excess = math.ceil(redis.call('XLEN', K.events) * (1 - args.max_bytes / bytes))
  removed = removed + redis.call('XTRIM', K.events, 'MINID', '~', projected, 'LIMIT', math.min(excess, args.chunk))
end
return cmsgpack.pack(removed)
