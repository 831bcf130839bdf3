#!lua flags=allow-oom
-- report.lua: a worker tells how attempts ended, and takes the next jobs in the same call.
--
-- args  {worker, endings = {{id, fence, how, body?, delay?, class?, logs?, progress?}, …}, log_bytes?, ask? = {worker, pool, queues, want}}
--       how: 'completed' (body: the result), 'failed' (body: the error; may retry), 'fatal' (failed, and no retry helps),
--       'canceled' (body: why), 'released' (given back; costs no attempt)
--       delay: ms until the retry, instead of the policy's (a jitter the worker has drawn, or what the handler asked for)
--       class: the error's class, for the event
--       progress: {fraction, note}, how far it came
--       logs: the last of its output, {{stream, text}, …}, kept up to `log_bytes` of each stream
--
-- Replies {{word, …}, leases}.  Words: 'ok'; 'done' (this attempt was reported before); 'stale' (a later lease owns the job, or it
-- was taken away); 'gone' (the job does not exist any more).  Only 'ok' changes anything.

-- S1 §2.3.1, as `calculate_retry_delay` in taskflow_domain has it; a test holds the two together.
-- The jitter (in thousandths of the delay) only shortens it, and hangs on id and attempt alone: the same jobs rest equally long again.
local function retry_delay_ms(id, policy, attempt)
  local max, strategy, base, cap, jitter = string.match(policy, '^(%d+):(%a):(%d+):(%d+):?(%d*)')
  max, base, cap = tonumber(max), tonumber(base), tonumber(cap)
  if attempt >= max then return nil end
  local delay = math.min(base * 2 ^ (attempt - 1), cap) * 1000
  if strategy == 'F' then delay = base * 1000 end
  if strategy == 'L' then delay = math.min(base * attempt, cap) * 1000 end
  if jitter == '' then return delay end
  local unit = tonumber(string.sub(redis.sha1hex(id .. ':' .. attempt), 1, 8), 16) / 4294967296
  return delay - math.floor(delay * jitter / 1000 * unit)
end

local function load_to_end(id)
  local v = redis.call('HMGET', K.job .. id, 'state', 'queue', 'order', 'attempt', 'fence', 'worker', 'entry', 'created', 'n',
    'size', 'cancel', 'waited', 'logged', 'owner', 'notify', 'tell')
  if not v[1] then return nil end
  return { state = v[1], queue = v[2], order = v[3], attempt = tonumber(v[4]), fence = tonumber(v[5]), worker = v[6] or nil,
    entry = v[7] or nil, created = v[8], n = tonumber(v[9]), size = v[10], cancel = v[11] or nil, waited = v[12] or nil,
    logged = v[13] or nil, owner = v[14] or nil, notify = v[15] or nil, tell = v[16] or nil }
end

local function fail(id, job, how, body, delay, class)
  local wait = how == 'failed' and retry_delay_ms(id, job.retry, job.attempt)
  if not wait then
    end_job(id, job, 'FAILED', 'job.failed', { error = class }, #body)
    return
  end
  redis.call('HSETNX', K.job .. id, 'asked', job.due or '') -- when it was to start at first
  job.due = int(now + (delay or wait))
  transition(id, job, 'READY', 'job.retrying', { 'worker', '', 'entry', '', 'due', job.due },
    { error = class, due = tonumber(job.due) })
  place(id, job)
end

local function report(worker, ending)
  local id, fence, how, body, logs = ending[1], ending[2], ending[3], ending[4] or '', ending[7]
  local job = load_to_end(id)
  if not job then return 'gone' end
  if job.fence ~= fence then return 'stale' end
  if job.state ~= 'RUNNING' then return 'done' end
  if job.worker ~= worker then return 'stale' end

  drop_lease(job)
  if logs then job.logged = (job.logged or 0) + append_log(id, job.attempt, logs, args.log_bytes) end
  if ending[8] then redis.call('HSET', K.job .. id, 'progress', ending[8][1], 'progress_note', ending[8][2]) end
  if body ~= '' then
    redis.call('SET', K.result .. id, body)
  elseif how == 'completed' and job.attempt > 1 then
    redis.call('DEL', K.result .. id) -- the error of an earlier attempt
  end
  if how == 'completed' then
    end_job(id, job, 'COMPLETED', 'job.completed', nil, #body)
  elseif how == 'canceled' or job.cancel then
    end_job(id, job, 'CANCELED', 'job.canceled', nil, #body)
  elseif how == 'released' then
    give_back(id, load_job(id))
  else
    fail(id, load_job(id), how, body, ending[5], ending[6])
  end
  return 'ok'
end

local words = {}
for i, ending in ipairs(args.endings) do words[i] = report(args.worker, ending) end
local leases = {}
if args.ask and args.ask ~= '' then
  flush() -- what the endings freed or gave back can be taken at once
  leases = take(args.ask)
end
flush()
return cmsgpack.pack({ words, leases })
