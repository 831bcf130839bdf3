#!lua flags=allow-oom
-- lease.lua: a worker with free slots takes the next jobs of its pool.
--
-- args  {worker, pool, queues, want}: see lease.inc.lua
--
-- Replies the list of leases.

local leases = take(args)
flush()
return cmsgpack.pack(leases)
