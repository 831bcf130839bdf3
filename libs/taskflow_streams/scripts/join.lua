#!lua flags=allow-oom
-- join.lua: a worker comes to life: its pool, its handlers, and the lanes that were parked for want of one.
--
-- args  {worker, pool, queues, handlers = {…}, fields = {name, value, …}}: `queues` is '*' or ',a,b,'
--
-- Replies 'ok'.  Safe to repeat; a worker that joins another pool leaves the one it was in.

local before = redis.call('HGET', K.worker .. args.worker, 'pool')
if before and before ~= args.pool then leave_pool(args.worker, before) end
redis.call('HSET', K.worker .. args.worker, 'pool', args.pool, unpack(args.fields))
redis.call('HDEL', K.worker .. args.worker, 'buried')
redis.call('ZADD', K.workers, now, args.worker)
redis.call('SADD', K.members .. args.pool, args.worker)
redis.call('HSET', K.pools, args.pool, args.queues)
for _, handler in ipairs(args.handlers) do
  redis.call('SADD', K.skills .. args.pool, handler)
  redis.call('SADD', K.able .. handler, args.pool)
  for _, queue in ipairs(redis.call('SMEMBERS', K.laned .. handler)) do wake_lane(queue, handler) end
end
return cmsgpack.pack('ok')
