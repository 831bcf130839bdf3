#!lua flags=allow-oom
-- retire.lua: retention.  Removes the oldest ended jobs that nothing live waits for.
--
-- args  {before_ms, limit, keep_key_ms, over = {count?, bytes?}}: those that ended before `before_ms`; beyond `count` jobs or `bytes`,
--       later ones too
--
-- Replies {removed, kept}: `kept` of those looked at are still waited for.

local removed, kept = 0, 0
local count = args.over.count
local bytes = args.over.bytes
local total = redis.call('ZCARD', K.ended)
local held = tonumber(redis.call('HGET', K.meta, 'bytes') or 0)

local rows = redis.call('ZRANGE', K.ended, 0, args.limit - 1, 'WITHSCORES')
for i = 1, #rows, 2 do
  local id, finished = rows[i], tonumber(rows[i + 1])
  local due = finished < args.before_ms or (count and total - removed > count) or (bytes and held + stored > bytes)
  if not due then break end
  local job = load_job(id)
  if not job then
    redis.call('ZREM', K.ended, id)
  elseif redis.call('EXISTS', K.waited .. id) == 1 then
    kept = kept + 1
    redis.call('ZADD', K.ended, 'XX', finished + 1000, id) -- looked at again, but not in the way of the others
  else
    erase(id, job, 'retention', args.keep_key_ms)
    removed = removed + 1
  end
end

flush()
return cmsgpack.pack({ removed, kept })
