#!lua flags=allow-oom
-- resolve.lua: a dependency has ended; its dependents in this partition move.
--
-- args  {dependency, limit}: those that wait for it here, up to `limit`; or
--       {dependency, state, jobs = {…}}: the dependency lives in another partition
--
-- Replies {moved, left, elsewhere = {id, …}}: `left` still wait here; `elsewhere` live in other partitions, for the scheduler to tell
-- (it then calls forget.lua).

local dependency = args.dependency
local state = args.state or redis.call('HGET', K.job .. dependency, 'state')
if not state or not (TERMINAL[state] or state == 'MISSING') then return cmsgpack.pack({ 0, 0, {} }) end

local here = args.jobs or redis.call('SRANDMEMBER', K.waited .. dependency, args.limit)
local moved, elsewhere = 0, {}
for _, id in ipairs(here) do
  local job = load_job(id)
  if job then
    if not args.state then redis.call('SREM', K.waited .. dependency, id) end
    local waited = redis.call('SREM', K.waits .. id, dependency) == 1
    if waited and job.state == 'PENDING' then
      moved = moved + 1
      if state ~= 'COMPLETED' then
        stop_waiting(id, job)
        end_job(id, job, 'BLOCKED', 'job.blocked', { dependency = dependency })
      elseif redis.call('EXISTS', K.waits .. id) == 0 then
        transition(id, job, 'READY', 'job.ready')
        place(id, job)
      end
    end
  elseif not args.state then
    elsewhere[#elsewhere + 1] = id
  end
end

flush()
local left = args.state and 0 or redis.call('SCARD', K.waited .. dependency)
return cmsgpack.pack({ moved, left, elsewhere })
