#!lua flags=allow-oom
-- expire.lua: ends jobs that should have started by now and never did.
--
-- args  {limit}
--
-- Replies {expired, next_ms or false}.

local expired = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', K.deadlines, '-inf', NOW, 'LIMIT', 0, args.limit)) do
  redis.call('ZREM', K.deadlines, id)
  local job = load_job(id)
  if job and job.attempt == 0 and (job.state == 'PENDING' or job.state == 'READY') then
    end_waiting(id, job, 'EXPIRED', 'job.expired')
    expired = expired + 1
  end
end

flush()
local first = redis.call('ZRANGE', K.deadlines, 0, 0, 'WITHSCORES')
return cmsgpack.pack({ expired, tonumber(first[2]) or false })
