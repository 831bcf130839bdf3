#!lua flags=allow-oom
-- order.lua: puts an order that concerns no single job ('drain', 'wake') into a worker's inbox.
--
-- args  {worker, what}

order_worker(args.worker, args.what)
return cmsgpack.pack('ok')
