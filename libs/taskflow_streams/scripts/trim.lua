#!lua flags=allow-oom
-- trim.lua: shortens the history, never past what the projector has applied.
--
-- args  {before_ms, max_bytes, chunk}: events older than `before_ms` go; while the stream is larger than `max_bytes`, the oldest
--       `chunk` go
--
-- Replies the number of events removed.

local function stamp(id) return tonumber(string.match(id, '^%d+')), tonumber(string.match(id, '%d+$')) end

local projected_ms = stamp(redis.call('GET', K.projected) or '0-0')
local limit_ms = math.min(args.before_ms, projected_ms) -- MINID keeps this millisecond, so never the projected event itself
local removed = redis.call('XTRIM', K.events, 'MINID', '~', int(limit_ms))

if (redis.call('MEMORY', 'USAGE', K.events) or 0) > args.max_bytes then
  local rows = redis.call('XRANGE', K.events, '-', int(projected_ms), 'COUNT', args.chunk)
  local last = rows[#rows]
  if last then
    local ms = stamp(last[1])
    removed = removed + redis.call('XTRIM', K.events, 'MINID', '~', int(math.min(ms, projected_ms)))
  end
end
return cmsgpack.pack(removed)
