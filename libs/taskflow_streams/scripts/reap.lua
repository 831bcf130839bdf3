#!lua flags=allow-oom
-- reap.lua: ends leases that were not renewed in time, each as a failed attempt without backoff.
--
-- args  {queues = {…}, visibility_ms, limit, by_ms?}: at most `limit` over all queues.  After `by_ms`, by the server's clock, nothing
--       is done: the call waited while the server stood still, and so did the workers' renewals.
--
-- Replies {reaped, failed}: how many leases were ended, and how many of those jobs have no attempt left.

local reaped, failed, room = 0, 0, args.limit
if args.by_ms and now > args.by_ms then return cmsgpack.pack({ 0, 0 }) end

for _, queue in ipairs(args.queues) do
  local work = K.work .. queue
  if room < 1 then break end
  for _, pending in ipairs(redis.call('XPENDING', work, GROUP, 'IDLE', args.visibility_ms, '-', '+', room)) do
    room = room - 1
    local entry = redis.call('XRANGE', work, pending[1], pending[1])[1]
    local id = entry and entry[2][1]
    local job = id and load_job(id)
    redis.call('XACK', work, GROUP, pending[1])
    redis.call('XDEL', work, pending[1])
    if job and job.state == 'RUNNING' and job.entry == pending[1] then
      reaped = reaped + 1
      freed[job.queue] = freed[job.queue] or {}
      local lost = { error = 'LeaseLost', idle_ms = pending[3] }
      job.fence = job.fence + 1 -- the late worker's token is void from here on
      redis.call('HSET', K.job .. id, 'fence', job.fence, 'entry', '')
      if job.cancel then
        end_job(id, job, 'CANCELED', 'job.canceled', lost)
      elseif job.attempt >= tonumber(string.match(job.retry, '^%d+')) then
        failed = failed + 1
        redis.call('SET', K.result .. id, cmsgpack.pack({ error = { class = 'LeaseLost', message =
          'the worker ' .. job.worker .. ' stopped renewing its lease (attempt ' .. job.attempt .. ', the last)' } }))
        end_job(id, job, 'FAILED', 'job.failed', lost)
      else
        transition(id, job, 'READY', 'job.lost', { 'worker', '' }, lost)
        place(id, job)
      end
    end
  end
end

flush()
return cmsgpack.pack({ reaped, failed })
