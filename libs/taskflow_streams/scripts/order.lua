#!lua flags=allow-oom
-- order.lua: puts an order that concerns no single job ('drain', 'resume', 'wake') into a worker's inbox.
--
-- args  {worker, what, status?}: what its record is to say until it speaks for itself again

order_worker(args.worker, args.what)
if args.status and redis.call('EXISTS', K.worker .. args.worker) == 1 then
  redis.call('HSET', K.worker .. args.worker, 'status', args.status)
end
return cmsgpack.pack('ok')
