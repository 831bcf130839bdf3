#!lua flags=allow-oom
-- order.lua: puts an order that concerns no single job ('drain', 'resume', 'wake') into a worker's inbox.
--
-- args  {worker, what, status?}: what its record is to say until it speaks for itself again

order_worker(args.worker, args.what)
if redis.call('EXISTS', K.worker .. args.worker) == 0 then
  redis.call('PEXPIRE', K.inbox .. args.worker, 1000) -- it has left: for a wait of its own that is about to begin, and nobody after that
elseif args.status then
  redis.call('HSET', K.worker .. args.worker, 'status', args.status)
end
return cmsgpack.pack('ok')
