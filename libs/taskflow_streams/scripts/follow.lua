#!lua flags=allow-oom
-- follow.lua: somebody wants to be told when a job ends; its end then writes `over:<id>`.
--
-- args  the job's id
--
-- Replies its state, or '' if there is no such job.  Safe to repeat.

local state = redis.call('HGET', K.job .. args, 'state')
if state and not TERMINAL[state] then redis.call('HSET', K.job .. args, 'notify', 1) end
return cmsgpack.pack(state or '')
