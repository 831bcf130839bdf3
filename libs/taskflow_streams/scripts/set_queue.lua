#!lua flags=allow-oom
-- set_queue.lua: changes a queue's settings; what a pause or a limit held back is offered again.
--
-- args  {queue, set = {paused?, max_concurrent?, weight?, reason?}, clear = {field, …}}

ensure_queue(args.queue)
for field, value in pairs(args.set) do redis.call('HSET', K.queue .. args.queue, field, value) end
for _, field in ipairs(args.clear) do redis.call('HDEL', K.queue .. args.queue, field) end
wake_queue(args.queue)
return cmsgpack.pack('ok')
