#!lua flags=allow-oom
-- watch.lua: a job of another partition names a job of this one as a dependency.
--
-- args  {dependency, job}
--
-- Replies the dependency's state, or 'MISSING'.  While it has not ended, the job is noted and told when it ends.

local state = redis.call('HGET', K.job .. args.dependency, 'state')
if not state then return cmsgpack.pack('MISSING') end
redis.call('SADD', K.deps .. args.dependency, args.job)
if not TERMINAL[state] then
  redis.call('SADD', K.waited .. args.dependency, args.job)
  redis.call('HSET', K.job .. args.dependency, 'waited', 1)
end
return cmsgpack.pack(state)
