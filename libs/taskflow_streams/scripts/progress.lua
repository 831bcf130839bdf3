#!lua
-- progress.lua: an attempt says how far it is.
--
-- args  {worker, id, fence, fraction, message}
--
-- Replies 'ok' or 'stale'.

local job = load_job(args.id)
if not holds(job, args.worker, args.fence) then return cmsgpack.pack('stale') end
redis.call('HSET', K.job .. args.id, 'progress', args.fraction, 'progress_note', args.message)
if job.notify then tell_progress(args.id, args.fraction, args.message) end
return cmsgpack.pack('ok')
