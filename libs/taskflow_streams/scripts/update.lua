#!lua
-- update.lua: changes what may still be changed of one job.
--
-- args  {id, ver, set = {queue?, order?, handler?, retry?, timeout?, due?, expires?, owner?}, clear = {field, …}, spec?,
--       dependencies? = {…}, depver?}.  `ver` is the version the change was computed from.
--
-- Replies a word: 'ok'; 'missing'; 'ended'; 'changed' (read again and retry); 'running' (queue, dependencies and timing of a running
-- job are fixed); or {'unknown', dependency}.

local id, set = args.id, args.set
local job = load_job(id)
if not job then return cmsgpack.pack({ 'missing' }) end
if TERMINAL[job.state] then return cmsgpack.pack({ 'ended' }) end
if (job.ver or '0') ~= int(args.ver) then return cmsgpack.pack({ 'changed' }) end
if job.state == 'RUNNING' and (set.queue and set.queue ~= job.queue or args.dependencies or set.due) then
  return cmsgpack.pack({ 'running' })
end

local wanted, states, here = {}, {}, {}
if args.dependencies then
  if (redis.call('HGET', K.meta, 'depver') or '0') ~= int(args.depver) then return cmsgpack.pack({ 'changed' }) end
  for _, dependency in ipairs(args.dependencies) do
    local state = redis.call('HGET', K.job .. dependency, 'state')
    here[dependency] = state
    if not state then
      -- Named before, but not here: it lives in another partition, or was removed since.  Then it had ended well, for nothing
      -- else lets a waiting job lose one.
      if redis.call('SISMEMBER', K.needs .. id, dependency) == 0 then
        return cmsgpack.pack({ 'unknown', dependency })
      end
      state = redis.call('SISMEMBER', K.waits .. id, dependency) == 1 and 'PENDING' or 'COMPLETED'
    end
    wanted[dependency], states[dependency] = true, state
  end
end

local was = { was = { queue = job.queue, order = tonumber(job.order), owner = job.owner } }
if job.state == 'READY' then unplace(id, job) end

local to = job.state
if args.dependencies then
  for _, dependency in ipairs(redis.call('SMEMBERS', K.needs .. id)) do
    if not wanted[dependency] then
      redis.call('SREM', K.needs .. id, dependency)
      redis.call('SREM', K.deps .. dependency, id)
      redis.call('SREM', K.waited .. dependency, id)
      redis.call('SREM', K.waits .. id, dependency)
      if job.far then redis.call('XADD', K.graph, '*', 'type', 'erased', 'job', id, 'dependency', dependency) end
    end
  end
  to = 'READY'
  for dependency, state in pairs(states) do
    redis.call('SADD', K.needs .. id, dependency)
    if here[dependency] then redis.call('SADD', K.deps .. dependency, id) end
    if TERMINAL[state] then
      redis.call('SREM', K.waits .. id, dependency)
      redis.call('SREM', K.waited .. dependency, id)
      if state ~= 'COMPLETED' then to = 'BLOCKED' end
    else
      redis.call('SADD', K.waits .. id, dependency)
      if here[dependency] then
        redis.call('SADD', K.waited .. dependency, id)
        redis.call('HSET', K.job .. dependency, 'waited', 1)
      end
      if to == 'READY' then to = 'PENDING' end
    end
  end
  job.needs = '1'
  redis.call('HSET', K.job .. id, 'needs', 1)
  redis.call('HINCRBY', K.meta, 'depver', 1)
end

local fields = { 'ver', (job.ver or 0) + 1 }
for field, value in pairs(set) do
  job[field] = type(value) == 'number' and int(value) or value
  fields[#fields + 1] = field
  fields[#fields + 1] = job[field]
end
for _, field in ipairs(args.clear) do
  job[field] = nil
  redis.call('HDEL', K.job .. id, field)
  if field == 'due' then redis.call('HDEL', K.job .. id, 'asked') end
end
if set.due then redis.call('HDEL', K.job .. id, 'asked') end
if args.spec then
  job.size = job.size + #args.spec - redis.call('STRLEN', K.spec .. id)
  redis.call('SET', K.spec .. id, args.spec)
  fields[#fields + 1] = 'size'
  fields[#fields + 1] = job.size
end

redis.call('HSET', K.job .. id, unpack(fields))
if job.attempt == 0 and job.state ~= 'RUNNING' then
  if job.expires then redis.call('ZADD', K.deadlines, job.expires, id) else redis.call('ZREM', K.deadlines, id) end
end
if to == 'BLOCKED' then
  stop_waiting(id, job)
  end_job(id, job, to, 'job.updated', was)
else
  transition(id, job, to, 'job.updated', nil, was)
  if to == 'READY' then place(id, job) end
end

flush()
return cmsgpack.pack({ 'ok' })
