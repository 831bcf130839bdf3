#!lua flags=allow-oom
-- renew.lua: a worker's heartbeat.  It keeps the leases it still has and learns which it lost.
--
-- args  {worker, tokens = {{id, fence}, …}, fields = {name, value, …}}: a fence of 0 is whichever the worker holds
--
-- Replies {{word, …}, known}: 'ok', 'cancel' (renewed, but the job shall be stopped) or 'lost' for each token; `known` is false
-- when the worker was taken for dead and has to join again.

local words = {}
for i, token in ipairs(args.tokens) do
  local job = load_job(token[1])
  if holds(job, args.worker, token[2] == 0 and job and job.fence or token[2]) then
    redis.call('XCLAIM', K.work .. job.queue, GROUP, args.worker, 0, job.entry, 'JUSTID')
    words[i] = job.cancel and 'cancel' or 'ok'
  else
    words[i] = 'lost'
  end
end

local known = redis.call('HEXISTS', K.worker .. args.worker, 'pool') == 1
if known then
  redis.call('ZADD', K.workers, now, args.worker)
  if #args.fields > 0 then redis.call('HSET', K.worker .. args.worker, unpack(args.fields)) end
end
return cmsgpack.pack({ words, known })
