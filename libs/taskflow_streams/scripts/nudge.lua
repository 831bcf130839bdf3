#!lua flags=allow-oom
-- nudge.lua: ends a worker's wait with an order that asks for nothing.
--
-- args  {worker}

order_worker(args.worker, 'wake')
return cmsgpack.pack('ok')
