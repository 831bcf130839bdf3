#!lua flags=allow-oom
-- hold.lua: a projector becomes, or stays, the active one of its partition.
--
-- args  {owner, lease_ms}
--
-- Replies 1 if it is, 0 if another one is.

local holder = redis.call('GET', K.projector)
if holder and holder ~= args.owner then return cmsgpack.pack(0) end
redis.call('SET', K.projector, args.owner, 'PX', args.lease_ms)
return cmsgpack.pack(1)
