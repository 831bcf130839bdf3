#!lua flags=allow-oom
-- cancel.lua: ends what has not started; asks the holder to stop what has.
--
-- args  list of job ids
--
-- Replies a word per job: 'canceled', 'stopping' (it runs; its worker has the order), 'ended' (too late) or 'missing'.

local words = {}
for i, id in ipairs(args) do
  local job = load_job(id)
  if not job then
    words[i] = 'missing'
  elseif TERMINAL[job.state] then
    words[i] = 'ended'
  elseif job.state == 'RUNNING' then
    words[i] = 'stopping'
    redis.call('HSET', K.job .. id, 'cancel', 1)
    order_worker(job.worker, 'cancel:' .. id .. ':' .. job.fence)
  else
    words[i] = 'canceled'
    end_waiting(id, job, 'CANCELED', 'job.canceled')
  end
end

flush()
return cmsgpack.pack(words)
