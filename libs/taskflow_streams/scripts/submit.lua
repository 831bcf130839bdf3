#!lua
-- submit.lua: accepts new jobs, all or none.
--
-- args  list of jobs {id, queue, order, handler, retry, spec, timeout?, due?, delay?, expires?, ttl?, owner?, run?, retry_of?,
--       schedule?, tell?, key? (1, or 'run' for one of a schedule's own times), dependencies = {…}?, elsewhere = {…}?}.  `elsewhere` are dependencies in other partitions, known to exist.
--
-- Replies {'ok', {word, …}, {state, …}, now_ms} with a word per job: 'created', 'existing' (that id is there already) or 'gone' (it
-- was, and was removed), and the state in which it was born; or, with nothing written, {'unknown', job_id, dependency}, or
-- {'cycle', job_id} when jobs of the batch need one another.

local jobs = args

local function was_removed(job)
  return redis.call('EXISTS', K.gone .. job.id) == 1
    or job.schedule and redis.call('ZSCORE', K.ran .. job.schedule, job.id)
end

local fresh, words, records = {}, {}, {}

for i, job in ipairs(jobs) do records[i] = K.job .. job.id end
local all_new = redis.call('EXISTS', unpack(records)) == 0
for i, job in ipairs(jobs) do
  if fresh[job.id] or (not all_new and redis.call('EXISTS', K.job .. job.id) == 1) then
    words[i] = 'existing'
  elseif job.key and was_removed(job) then
    words[i] = 'gone'
  else
    words[i] = 'created'
    fresh[job.id] = job
  end
end

local states = {} -- dependency -> state, for what existed before this call
for i, job in ipairs(jobs) do
  if words[i] == 'created' and job.dependencies then
    for _, dependency in ipairs(job.dependencies) do
      if not fresh[dependency] and not states[dependency] then
        local state = redis.call('HGET', K.job .. dependency, 'state')
        if not state then return cmsgpack.pack({ 'unknown', job.id, dependency }) end
        states[dependency] = state
      end
    end
  end
end

-- A job of this batch is born after those it needs, so that their state is known.  Depth first over the batch's own
-- dependencies, without recursion: a chain may be a thousand long.
local order, listed, open = {}, {}, {}
for i, root in ipairs(jobs) do
  local stack = words[i] == 'created' and not listed[root.id] and { root } or {}
  while #stack > 0 do
    local job, first = stack[#stack], nil
    open[job.id] = true
    for _, dependency in ipairs(job.dependencies or {}) do
      if fresh[dependency] and not listed[dependency] then first = fresh[dependency]; break end
    end
    if not first then
      stack[#stack] = nil
      listed[job.id] = true
      order[#order + 1] = job
    elseif open[first.id] then
      return cmsgpack.pack({ 'cycle', first.id })
    else
      stack[#stack + 1] = first
    end
  end
end

local born = {}
local function birth_state(job)
  local state = 'READY'
  for _, dependency in ipairs(job.dependencies or {}) do
    local of = born[dependency] or states[dependency] or 'PENDING'
    if of ~= 'COMPLETED' then
      if TERMINAL[of] then return 'BLOCKED' end
      state = 'PENDING'
    end
  end
  if job.elsewhere then state = 'PENDING' end
  return state
end

local function wait_for(id, dependency)
  redis.call('SADD', K.needs .. id, dependency)
  redis.call('SADD', K.deps .. dependency, id)
end

local specs = {}
local function write(new)
  local state = birth_state(new)
  local due = new.due or (new.delay and now + new.delay)
  local expires = new.expires or (new.ttl and now + new.ttl)
  local job = { queue = new.queue, order = new.order, handler = new.handler, attempt = 0, fence = 0, n = 0,
    created = NOW, owner = new.owner, due = due and int(due), size = #new.spec + 512 }
  local set = { 'queue', new.queue, 'order', new.order, 'handler', new.handler, 'attempt', 0, 'fence', 0,
    'created', NOW, 'retry', new.retry, 'size', job.size }
  local function keep(field, value)
    if value then set[#set + 1] = field; set[#set + 1] = value end
  end
  keep('timeout', new.timeout)
  keep('due', job.due)
  keep('expires', expires and int(expires))
  keep('owner', new.owner)
  keep('run', new.run)
  keep('retry_of', new.retry_of)
  keep('schedule', new.schedule)
  keep('tell', new.tell)
  keep('key', new.key)
  keep('needs', (new.dependencies or new.elsewhere) and 1)
  keep('far', new.elsewhere and 1)
  keep('finished', state == 'BLOCKED' and NOW)
  specs[#specs + 1] = K.spec .. new.id
  specs[#specs + 1] = new.spec
  transition(new.id, job, state, 'job.submitted', set)
  born[new.id] = state

  for _, dependency in ipairs(new.dependencies or {}) do
    wait_for(new.id, dependency)
    local of = born[dependency] or states[dependency]
    if state == 'PENDING' and not TERMINAL[of] then
      redis.call('SADD', K.waits .. new.id, dependency)
      redis.call('SADD', K.waited .. dependency, new.id)
      redis.call('HSET', K.job .. dependency, 'waited', 1)
    end
  end
  for _, dependency in ipairs(new.elsewhere or {}) do
    redis.call('SADD', K.needs .. new.id, dependency)
    if state == 'PENDING' then redis.call('SADD', K.waits .. new.id, dependency) end
    redis.call('XADD', K.graph, '*', 'type', 'subscribe', 'job', new.id, 'dependency', dependency)
  end

  if state == 'READY' then place(new.id, job) end
  if state == 'BLOCKED' then
    note_end(new.id, job.size)
  elseif expires then
    redis.call('ZADD', K.deadlines, int(expires), new.id)
  end
end

for _, job in ipairs(order) do write(job) end
if #specs > 0 then redis.call('MSET', unpack(specs)) end
flush()
local states_at_birth = {}
for i, job in ipairs(jobs) do states_at_birth[i] = words[i] == 'created' and born[job.id] or '' end
return cmsgpack.pack({ 'ok', words, states_at_birth, now })
