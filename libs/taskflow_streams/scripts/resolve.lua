#!lua flags=allow-oom
-- resolve.lua: dependencies have ended; those that wait for them in this partition move.
--
-- args  {dependencies = {…}, limit}: up to `limit` of those that wait here, for all together; or
--       {dependencies = {one}, state, jobs = {…}}: the dependency lives in another partition
--
-- Replies a list of {moved, left, elsewhere = {id, …}}: `left` still wait here; `elsewhere` live in other partitions, for the
-- scheduler to tell (it then calls forget.lua).

local function release_or_block(id, job, dependency, state)
  if state ~= 'COMPLETED' then
    stop_waiting(id, job)
    end_job(id, job, 'BLOCKED', 'job.blocked', { dependency = dependency })
  elseif redis.call('EXISTS', K.waits .. id) == 0 then
    transition(id, job, 'READY', 'job.ready')
    place(id, job)
  end
end

local room = args.limit or 0
local function resolve(dependency)
  local state = args.state or redis.call('HGET', K.job .. dependency, 'state')
  if not state or not (TERMINAL[state] or state == 'MISSING') then return { 0, 0, {} } end

  local moved, elsewhere = 0, {}
  local waiting = args.jobs or redis.call('SRANDMEMBER', K.waited .. dependency, room)
  room = room - #waiting
  for _, id in ipairs(waiting) do
    local job = load_job(id)
    if job then
      if not args.state then redis.call('SREM', K.waited .. dependency, id) end
      local waited = redis.call('SREM', K.waits .. id, dependency) == 1
      if waited and job.state == 'PENDING' then
        moved = moved + 1
        release_or_block(id, job, dependency, state)
      end
    elseif not args.state then
      elsewhere[#elsewhere + 1] = id
    end
  end
  return { moved, args.state and 0 or redis.call('SCARD', K.waited .. dependency), elsewhere }
end

local replies = {}
for i, dependency in ipairs(args.dependencies) do replies[i] = resolve(dependency) end
flush()
return cmsgpack.pack(replies)
