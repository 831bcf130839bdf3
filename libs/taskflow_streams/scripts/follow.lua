#!lua flags=allow-oom
-- follow.lua: somebody wants to be told how far a job is, and when it ends; it then writes `progress:<id>` and `over:<id>`.
--
-- args  the job's id
--
-- Replies its state, or '' if there is no such job.  Safe to repeat.

local job = redis.call('HMGET', K.job .. args, 'state', 'notify', 'progress', 'progress_note')
local state, followed, progress, note = unpack(job)
if state and not followed and not TERMINAL[state] then
  redis.call('HSET', K.job .. args, 'notify', 1)
  if progress and progress ~= '' then tell_progress(args, progress, note) end
end
return cmsgpack.pack(state or '')
