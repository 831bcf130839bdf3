-- lease.inc.lua: gives a worker up to `want` jobs; shared by lease.lua and report.lua.
--
-- take{worker, pool, queues = '*' or {{name, weight?}, …}, want, weights? = {name = weight}} returns a list of {id, fence, attempt, queue, handler, spec,
-- timeout, created, due}.  Not safe to repeat: after a lost reply the worker calls resync.

-- Read and shaped by hand, as in report.lua: these two run for every job, and a table of known size is made in one go.
local function load_to_start(id)
  local v = redis.call('HMGET', K.job .. id, 'state', 'queue', 'order', 'handler', 'attempt', 'fence', 'created', 'n', 'timeout',
    'due', 'expires', 'owner')
  if not v[1] then return nil end
  return { state = v[1], queue = v[2], order = v[3], handler = v[4], attempt = tonumber(v[5]), fence = tonumber(v[6]),
    created = v[7], n = tonumber(v[8]), timeout = v[9] or 0, due = v[10] or 0, expires = v[11] or nil, owner = v[12] or nil,
    worker = nil }
end

local PAGE = 256 -- queues looked at together, those with the lowest virtual time first; the next page only if they give nothing

local function candidates(ask, from)
  local found, queues, weights = {}, ask.queues, ask.weights or {}
  if queues == '*' then
    local rows = redis.call('ZRANGE', K.active, from, from + PAGE - 1, 'WITHSCORES')
    for i = 1, #rows, 2 do 
      found[#found + 1] = { name = rows[i], vtime = tonumber(rows[i + 1]), weight = weights[rows[i]] }
    end
  else
    for _, queue in ipairs(queues) do
      local vtime = redis.call('ZSCORE', K.active, queue[1])
      if vtime then found[#found + 1] = { name = queue[1], vtime = tonumber(vtime), weight = queue[2] } end
    end
  end
  return found
end

local function leave_active(queue)
  queue.left = true
  redis.call('ZREM', K.active, queue.name)
  redis.call('HSET', K.queue .. queue.name, 'vtime', queue.vtime)
end

-- Which lanes of the queue this pool can run, and how many jobs it may take from them now.  A queue that can give nothing to
-- anybody leaves `active`: a new job, a freed slot or a change of its settings brings it back.
local function survey(queue, pool)
  queue.lanes = redis.call('SINTER', K.lanes .. queue.name, K.skills .. pool)
  queue.free, queue.count, queue.depth = 0, 0, {}
  if #queue.lanes == 0 then
    if redis.call('EXISTS', K.lanes .. queue.name) == 0 then leave_active(queue) end
    return
  end
  local settings = redis.call('HMGET', K.queue .. queue.name, 'paused', 'max_concurrent', 'weight')
  queue.weight = tonumber(queue.weight or settings[3] or 1)
  local room = math.huge
  if settings[1] == '1' then
    room = 0
  elseif settings[2] then
    room = settings[2] - redis.call('XLEN', K.work .. queue.name)
  end
  if room <= 0 then
    leave_active(queue)
    return
  end
  for _, handler in ipairs(queue.lanes) do
    local depth = redis.call('ZCARD', K.ready .. queue.name .. ':' .. handler)
    queue.depth[handler] = depth
    queue.count = queue.count + depth
  end
  queue.free = math.min(queue.count, room)
end

-- The pool's queues that can give something now.
local function givers(ask)
  local found, from = {}, 0
  repeat
    local page = candidates(ask, from)
    for _, queue in ipairs(page) do
      survey(queue, ask.pool)
      if queue.free > 0 then found[#found + 1] = queue end
      if not queue.left then from = from + 1 end
    end
  until #found > 0 or #page < PAGE or ask.queues ~= '*'
  return found
end

-- Shares `want` among the queues: always one more for the queue whose virtual time is lowest.  Returns the virtual time at which
-- the last of them starts: the present, from which a queue that was idle begins.
local function share(queues, want)
  if #queues == 1 then
    local queue = queues[1]
    queue.take = math.min(want, queue.free)
    return queue.vtime + (queue.take - 1) / queue.weight
  end
  local present = 0
  for _, queue in ipairs(queues) do queue.take, queue.at = 0, queue.vtime end
  for _ = 1, want do
    local best
    for _, queue in ipairs(queues) do
      if queue.take < queue.free and (not best or queue.at < best.at) then best = queue end
    end
    if not best then break end
    present = best.at
    best.take = best.take + 1
    best.at = best.at + 1 / best.weight
  end
  return present
end

local function close_if_drained(queue, handler, taken)
  if taken == queue.depth[handler] then
    redis.call('SREM', K.lanes .. queue.name, handler)
    redis.call('SREM', K.laned .. handler, queue.name)
  end
end

-- The first `take` jobs over the queue's lanes, in exact order.
local function pop(queue)
  local ids = {}
  if #queue.lanes == 1 then
    local rows = redis.call('ZPOPMIN', K.ready .. queue.name .. ':' .. queue.lanes[1], queue.take)
    for i = 1, #rows, 2 do ids[#ids + 1] = rows[i] end
    close_if_drained(queue, queue.lanes[1], #ids)
    return ids
  end
  local heads, taken = {}, {}
  for _, handler in ipairs(queue.lanes) do
    local rows = redis.call('ZRANGE', K.ready .. queue.name .. ':' .. handler, 0, queue.take - 1, 'WITHSCORES')
    for i = 1, #rows, 2 do heads[#heads + 1] = { id = rows[i], score = tonumber(rows[i + 1]), handler = handler } end
  end
  table.sort(heads, function(a, b)
    if a.score ~= b.score then return a.score < b.score end
    return a.id < b.id
  end)
  for i = 1, math.min(queue.take, #heads) do
    local handler = heads[i].handler
    redis.call('ZREM', K.ready .. queue.name .. ':' .. handler, heads[i].id)
    taken[handler] = (taken[handler] or 0) + 1
    ids[i] = heads[i].id
  end
  for handler, count in pairs(taken) do close_if_drained(queue, handler, count) end
  return ids
end

-- A run that is given back costs no attempt, so their number has no bound, and each may print as much as an attempt may.  Some runs' worth of
-- output is kept; beyond that, a new run begins the log anew.  It is emptied, not deleted: ids go on, so those who follow it go on reading.
local JOB_LOG_BYTES = 8388608 -- as `logged` counts them
local function begin_run(id, attempt)
  local record = K.job .. id
  redis.call('HDEL', record, 'progress', 'progress_note', 'log_stdout', 'log_stderr', 'log_system')
  if tonumber(redis.call('HGET', record, 'logged') or 0) <= JOB_LOG_BYTES then return end
  redis.call('XTRIM', K.log .. id, 'MAXLEN', 0)
  redis.call('XADD', K.log .. id, '*', 'stream', 'system', 'attempt', attempt,
    'text', '[older output was dropped here: the log had more than ' .. int(JOB_LOG_BYTES) .. ' bytes]\n')
  redis.call('HSET', record, 'logged', 128)
end

local function take(ask)
  local leases, specs = {}, {}
  if ask.want < 1 then return leases end
  local queues = givers(ask)
  if #queues == 0 then return leases end
  local present, more = share(queues, ask.want), false
  for _, queue in ipairs(queues) do
    if queue.take > 0 then
      local work, started = K.work .. queue.name, 0
      for _, id in ipairs(pop(queue)) do
        local job = load_to_start(id)
        if job and job.expires and job.attempt == 0 and tonumber(job.expires) <= now then
          end_job(id, load_job(id), 'EXPIRED', 'job.expired')
        elseif job then
          started = started + 1
          job.attempt, job.fence, job.worker = job.attempt + 1, job.fence + 1, ask.worker
          local entry = redis.call('XADD', work, '*', id, job.fence)
          transition(id, job, 'RUNNING', 'job.started', { 'attempt', job.attempt, 'fence', job.fence,
            'worker', ask.worker, 'entry', entry, 'started', NOW })
          if job.expires then redis.call('ZREM', K.deadlines, id) end
          if job.fence > 1 then begin_run(id, job.attempt) end
          leases[#leases + 1] = { id, job.fence, job.attempt, queue.name, job.handler, '', tonumber(job.timeout),
            tonumber(job.created), tonumber(job.due) }
          specs[#specs + 1] = K.spec .. id
        end
      end
      if started > 0 then
        redis.call('XREADGROUP', 'GROUP', GROUP, ask.worker, 'STREAMS', work, '>')
      end
      queue.vtime = queue.vtime + started / queue.weight
      if queue.count > queue.take then
        redis.call('ZADD', K.active, queue.vtime, queue.name)
        more = more or queue.free > started -- what has expired took no slot
      elseif redis.call('EXISTS', K.lanes .. queue.name) == 0 then
        leave_active(queue)
      else
        redis.call('ZADD', K.active, queue.vtime, queue.name)
      end
    elseif queue.free > 0 then
      more = true
    end
  end
  if #specs > 0 then
    for i, spec in ipairs(redis.call('MGET', unpack(specs))) do leases[i][6] = spec or '' end
  end
  if present > tonumber(redis.call('HGET', K.meta, 'vclock') or 0) then redis.call('HSET', K.meta, 'vclock', present) end
  -- One bell wakes one worker; it rings the next while there is more than it could take.
  if more then redis.call('ZADD', K.bell .. ask.pool, 0, 'ring') end
  return leases
end
