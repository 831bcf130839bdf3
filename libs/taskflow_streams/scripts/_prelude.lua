-- _prelude.lua: what all scripts share.  The loader puts it, and the key table K, in front of each script.
--
-- KEYS  1 meta    hash    always exists; its name gives the partition's prefix
-- ARGV  1 now_ms  the server's clock if empty (tests pass a time of their own)
--       2 args    msgpack; what it holds is said at the head of each script
--
-- Replies are msgpack too.  A script checks everything before its first write: there is no rollback.

local args = cmsgpack.unpack(ARGV[2])
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local EPOCH_2020_MS = 1577836800000
local ORDER_UNIT = 4398046511104 -- 2^42 ms: more than any time, so that order always comes first
local TRAIL = 100                -- ids of its own events that a job keeps; older ones are overwritten
local TERMINAL = { COMPLETED = true, FAILED = true, BLOCKED = true, CANCELED = true, EXPIRED = true }
local FIELDS = { 'state', 'queue', 'order', 'handler', 'attempt', 'fence', 'worker', 'entry', 'created', 'due', 'expires',
  'n', 'cancel', 'waited', 'needs', 'retry', 'size', 'logged', 'owner', 'ver', 'run', 'key', 'far', 'notify', 'tell' }
local GROUP = 'workers'

-- Long numbers never pass through tostring, which would cut them.
local function int(number) return string.format('%.0f', number) end
local NOW = int(now)

local function load_job(id)
  local values = redis.call('HMGET', K.job .. id, unpack(FIELDS))
  if not values[1] then return nil end
  local job = {}
  for i = 1, #FIELDS do job[FIELDS[i]] = values[i] or nil end
  job.attempt, job.fence, job.n = tonumber(job.attempt), tonumber(job.fence), tonumber(job.n)
  return job
end

-- Records one transition: the event first, for its id goes into the record.  `set` holds further fields of the record.
-- The event's `is` reads: at from to attempt fence order created queue worker.  `more` is msgpack.
local function transition(id, job, to, kind, set, more)
  local what = table.concat({ NOW, job.state or '-', to == '' and '-' or to, job.attempt, job.fence, job.order, job.created,
    job.queue, job.worker or '-' }, ' ')
  if job.owner then
    more = more or {}
    more.owner = job.owner
  end
  local event
  if more then
    event = redis.call('XADD', K.events, '*', 'type', kind, 'job', id, 'is', what, 'more', cmsgpack.pack(more))
  else
    event = redis.call('XADD', K.events, '*', 'type', kind, 'job', id, 'is', what)
  end
  if to == '' then return end
  job.n = job.n + 1
  job.state = to
  redis.call('HSET', K.job .. id, 'state', to, 'updated', NOW, 'n', job.n, 'e' .. ((job.n - 1) % TRAIL + 1), event,
    unpack(set or {}))
end

-- Queues and lanes ----------------------------------------------------------------------------------------------------

local known = {}
local function ensure_queue(queue)
  if known[queue] then return end
  known[queue] = true
  if redis.call('SADD', K.queues, queue) == 1 then
    redis.pcall('XGROUP', 'CREATE', K.work .. queue, GROUP, '$', 'MKSTREAM')
  end
end

local function lane_of(job) return K.ready .. job.queue .. ':' .. job.handler end

-- What `flush` writes at the end, in one call for the whole batch where it would be one for each job.
local placed, freed, ended, endings, told, due_changed, stored = {}, {}, {}, {}, {}, false, 0

-- Puts a READY job where it waits: in its lane, or among the delayed until it is due.
local function place(id, job)
  if job.due and tonumber(job.due) > now then
    redis.call('ZADD', K.delayed, job.due, id)
    due_changed = due_changed or redis.call('ZRANGE', K.delayed, 0, 0)[1] == id
    return
  end
  ensure_queue(job.queue)
  local lanes = placed[job.queue] or {}
  local lane = lanes[job.handler] or {}
  placed[job.queue], lanes[job.handler] = lanes, lane
  lane[#lane + 1] = job.order * ORDER_UNIT + (job.created - EPOCH_2020_MS)
  lane[#lane + 1] = id
end

local function close_lane_if_empty(queue, handler)
  if redis.call('EXISTS', K.ready .. queue .. ':' .. handler) == 0 then
    redis.call('SREM', K.lanes .. queue, handler)
    redis.call('SREM', K.laned .. handler, queue)
  end
end

local function unplace(id, job)
  if redis.call('ZREM', K.delayed, id) == 0 then
    redis.call('ZREM', lane_of(job), id)
    close_lane_if_empty(job.queue, job.handler)
  end
end

local pool_wants -- pool -> its queues, read once per script
local function ring(queue, handler)
  if not pool_wants then
    local rows = redis.call('HGETALL', K.pools)
    pool_wants = {}
    for i = 1, #rows, 2 do pool_wants[rows[i]] = rows[i + 1] end
  end
  for pool, wants in pairs(pool_wants) do
    if (wants == '*' or string.find(wants, ',' .. queue .. ',', 1, true))
        and redis.call('SISMEMBER', K.skills .. pool, handler) == 1 then
      redis.call('ZADD', K.bell .. pool, 0, 'ring')
    end
  end
end

-- A queue that becomes active starts at the present virtual time: idleness earns no credit.
local function activate(queue)
  if redis.call('ZSCORE', K.active, queue) then return end
  local clock = tonumber(redis.call('HGET', K.meta, 'vclock') or 0)
  local last = tonumber(redis.call('HGET', K.queue .. queue, 'vtime') or 0)
  redis.call('ZADD', K.active, math.max(clock, last), queue)
end

local function wake_lane(queue, handler)
  redis.call('SADD', K.laned .. handler, queue)
  if redis.call('EXISTS', K.able .. handler) == 1 then
    redis.call('SADD', K.lanes .. queue, handler)
    activate(queue)
    ring(queue, handler)
  end
end

-- All that a limit, a pause or a lack of slots held back in a queue may be leasable now.
local function wake_queue(queue)
  local handlers = redis.call('SMEMBERS', K.lanes .. queue)
  if #handlers > 0 then activate(queue) end
  for _, handler in ipairs(handlers) do ring(queue, handler) end
end

-- Endings ------------------------------------------------------------------------------------------------------------

local function drop_lease(job)
  local entries = freed[job.queue] or {}
  freed[job.queue] = entries
  entries[#entries + 1] = job.entry
end

local function note_end(id, size)
  ended[#ended + 1] = NOW
  ended[#ended + 1] = id
  stored = stored + size
end

-- Those who follow a job wait for this stream to come into being (follow.lua).
local function tell_end(id, state)
  redis.call('XADD', K.over .. id, '*', 'state', state)
  redis.call('PEXPIRE', K.over .. id, 60000)
end

-- The log of an ended job is read only, and mostly short: a line costs a string 120 bytes, a stream 4,376.  A long one has little to gain, and
-- would hold up the server.
local SHORT_LOG_BYTES, SHORT_LOG_CHUNKS = 65536, 500
local function compact_log(id, bytes)
  if bytes > SHORT_LOG_BYTES or redis.call('XLEN', K.log .. id) > SHORT_LOG_CHUNKS then return end
  local chunks = {}
  for i, entry in ipairs(redis.call('XRANGE', K.log .. id, '-', '+')) do
    local fields = entry[2] -- stream, attempt, text, as append_log writes them
    chunks[i] = { entry[1], fields[2], tonumber(fields[4]), fields[6] }
  end
  redis.call('SET', K.printed .. id, cmsgpack.pack(chunks))
  redis.call('DEL', K.log .. id)
end

-- Those who follow a job read how far it is from this stream; only the last word counts.
local function tell_progress(id, fraction, note)
  redis.call('XADD', K.progress .. id, 'MAXLEN', 1, '*', 'fraction', fraction, 'note', note or '')
  redis.call('PEXPIRE', K.progress .. id, 3600000)
end

-- `size` becomes all that the job holds, so that its removal gives back exactly what its end has added.
local function end_job(id, job, state, kind, more, result_bytes)
  local logged = tonumber(job.logged or 0)
  local size = job.size + logged + (result_bytes or 0)
  if logged > 0 then compact_log(id, logged) end
  transition(id, job, state, kind, { 'finished', NOW, 'size', size }, more)
  note_end(id, size)
  if job.expires then redis.call('ZREM', K.deadlines, id) end
  if job.waited then endings[#endings + 1] = id end
  if job.notify then tell_end(id, state) end
  if job.tell then told[id] = job.tell end
end

-- A job that will not run any more stops waiting for its dependencies.
local function stop_waiting(id, job)
  if not job.needs then return end
  for _, dependency in ipairs(redis.call('SMEMBERS', K.waits .. id)) do
    redis.call('SREM', K.waited .. dependency, id)
  end
  redis.call('DEL', K.waits .. id)
end

-- Ends a job that is not running, wherever it waits.
local function end_waiting(id, job, state, kind, more)
  if job.state == 'READY' then unplace(id, job) end
  stop_waiting(id, job)
  end_job(id, job, state, kind, more)
end

-- A worker gives back what it holds (shutdown, no handler, a lease it does not know of): that costs no attempt.
-- The next run has the same number, so a mark in the log keeps their output apart, if there is any.
local function give_back(id, job)
  local printed = job.logged and redis.call('HMGET', K.job .. id, 'log_stdout', 'log_stderr', 'log_system')
  if printed and (printed[1] or printed[2] or printed[3]) then
    redis.call('XADD', K.log .. id, '*', 'stream', 'system', 'attempt', job.attempt, 'text', '[its worker gave it back]\n')
    redis.call('HINCRBY', K.job .. id, 'logged', 64)
  end
  job.attempt = job.attempt - 1
  transition(id, job, 'READY', 'job.released', { 'attempt', job.attempt, 'worker', '', 'entry', '' })
  if job.expires and job.attempt == 0 then redis.call('ZADD', K.deadlines, job.expires, id) end
  place(id, job)
end

-- Whether a report or a renewal comes from the attempt that holds the job now.
local function holds(job, worker, fence)
  return job and job.state == 'RUNNING' and job.fence == fence and job.worker == worker
end

local function order_worker(worker, what)
  redis.call('ZADD', K.inbox .. worker, now, what)
  redis.call('PEXPIRE', K.inbox .. worker, 3600000) -- a worker that never reads it is dead
end

-- What was submitted under a key is not made again for a while.  A schedule starts its times one after the other, and may have many of them:
-- of its removed runs the latest are enough.
local RUNS, RUNS_MS = 100, 2592000000
local function leave_mark(id, job, keep_key_ms)
  if job.key ~= 'run' then
    redis.call('SET', K.gone .. id, '1', 'PX', keep_key_ms)
    return
  end
  local ran = K.ran .. redis.call('HGET', K.job .. id, 'schedule')
  redis.call('ZADD', ran, job.created, id)
  redis.call('ZREMRANGEBYRANK', ran, 0, -RUNS - 1)
  redis.call('PEXPIRE', ran, RUNS_MS)
end

-- Removes a job and every trace of it but its events.
local function erase(id, job, reason, keep_key_ms)
  if TERMINAL[job.state] then
    redis.call('ZREM', K.ended, id)
    stored = stored - job.size
  elseif job.state == 'RUNNING' then
    drop_lease(job)
    order_worker(job.worker, 'lost:' .. id .. ':' .. job.fence)
  elseif job.state == 'READY' then
    unplace(id, job)
  end
  if job.expires then redis.call('ZREM', K.deadlines, id) end
  if job.needs then
    stop_waiting(id, job)
    for _, dependency in ipairs(redis.call('SMEMBERS', K.needs .. id)) do
      redis.call('SREM', K.deps .. dependency, id)
      if job.far then redis.call('XADD', K.graph, '*', 'type', 'erased', 'job', id, 'dependency', dependency) end
    end
  end
  if job.notify and not TERMINAL[job.state] then tell_end(id, 'DELETED') end
  if job.tell and not TERMINAL[job.state] then told[id] = job.tell end
  transition(id, job, '', 'job.deleted', nil, { reason = reason })
  if job.key then leave_mark(id, job, keep_key_ms) end
  redis.call('DEL', K.job .. id, K.spec .. id, K.result .. id, K.log .. id, K.printed .. id, K.progress .. id,
    K.needs .. id, K.waits .. id, K.waited .. id, K.deps .. id)
end

-- `unpack` fails beyond some 7,900 values, and by then a script has written: long lists go in pieces.
local PIECE = 2000
local function in_pieces(values, call)
  for from = 1, #values, PIECE do call(unpack(values, from, math.min(from + PIECE - 1, #values))) end
end

-- Last words of every script that may make something leasable, end a job, or change what is due first.
local function flush()
  for queue, lanes in pairs(placed) do
    for handler, members in pairs(lanes) do
      in_pieces(members, function(...) redis.call('ZADD', K.ready .. queue .. ':' .. handler, ...) end)
      wake_lane(queue, handler)
    end
  end
  for queue, entries in pairs(freed) do
    in_pieces(entries, function(...)
      redis.call('XACK', K.work .. queue, GROUP, ...)
      redis.call('XDEL', K.work .. queue, ...)
    end)
    if redis.call('HGET', K.queue .. queue, 'max_concurrent') then wake_queue(queue) end
  end
  in_pieces(ended, function(...) redis.call('ZADD', K.ended, ...) end)
  for _, id in ipairs(endings) do redis.call('XADD', K.graph, '*', 'type', 'ended', 'job', id) end
  for id, schedule in pairs(told) do redis.call('XADD', K.graph, '*', 'type', 'run', 'job', id, 'schedule', schedule) end
  if due_changed then redis.call('XADD', K.graph, '*', 'type', 'due') end
  if stored ~= 0 then redis.call('HINCRBY', K.meta, 'bytes', int(stored)) end
  placed, freed, ended, endings, told, due_changed, stored = {}, {}, {}, {}, {}, false, 0
end
