#!lua flags=allow-oom
-- delete.lua: removes one job at once, unless something depends on it.
--
-- args  {id, keep_key_ms}
--
-- Replies 'deleted', 'missing', 'named' (another job names it as a dependency) or 'run' (it belongs to a run).

local job = load_job(args.id)
if not job then return cmsgpack.pack('missing') end
if redis.call('EXISTS', K.deps .. args.id) == 1 then return cmsgpack.pack('named') end
if job.run then return cmsgpack.pack('run') end

erase(args.id, job, 'deleted', args.keep_key_ms)
flush()
return cmsgpack.pack('deleted')
