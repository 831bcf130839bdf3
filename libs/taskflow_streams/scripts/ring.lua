#!lua flags=allow-oom
-- ring.lua: rings for a pool on behalf of one that took the bell and did not look.
--
-- args  {pool}

if redis.call('EXISTS', K.members .. args.pool) == 1 then redis.call('ZADD', K.bell .. args.pool, 0, 'ring') end
return cmsgpack.pack('ok')
