#!lua flags=allow-oom
-- promote.lua: moves delayed jobs that are due into their lanes.
--
-- args  {limit}
--
-- Replies {promoted, wait_ms or false}: how long until the next one is due (0 when some are left).

local promoted = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', K.delayed, '-inf', NOW, 'LIMIT', 0, args.limit)) do
  redis.call('ZREM', K.delayed, id)
  local job = load_job(id)
  if job and job.state == 'READY' then
    job.due = nil
    place(id, job)
    promoted = promoted + 1
  end
end

flush()
local first = redis.call('ZRANGE', K.delayed, 0, 0, 'WITHSCORES')
return cmsgpack.pack({ promoted, first[2] and math.max(0, tonumber(first[2]) - now) or false })
