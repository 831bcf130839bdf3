#!lua flags=allow-oom
-- leave.lua: a worker stops, or is taken for dead.  Its leases are not touched: they are released or reaped.
--
-- args  {worker, forget, unless_seen_since?}: `forget` removes its registration too; with `unless_seen_since` (ms) nothing happens if it
--       has sent a heartbeat after that
--
-- Replies 'left', 'alive' or 'holding' (it still has leases, so its registration stays).

local worker = args.worker
local seen = tonumber(redis.call('ZSCORE', K.workers, worker) or 0)
if args.unless_seen_since and seen > args.unless_seen_since then return cmsgpack.pack('alive') end

local pool = redis.call('HGET', K.worker .. worker, 'pool')
if pool then
  redis.call('HDEL', K.worker .. worker, 'pool')
  redis.call('HSET', K.worker .. worker, 'buried', NOW)
  redis.call('SREM', K.members .. pool, worker)
  if redis.call('EXISTS', K.members .. pool) == 0 then
    for _, handler in ipairs(redis.call('SMEMBERS', K.skills .. pool)) do
      redis.call('SREM', K.able .. handler, pool)
      if redis.call('EXISTS', K.able .. handler) == 0 then
        for _, queue in ipairs(redis.call('SMEMBERS', K.laned .. handler)) do
          redis.call('SREM', K.lanes .. queue, handler)
        end
      end
    end
    redis.call('HDEL', K.pools, pool)
    redis.call('DEL', K.skills .. pool, K.bell .. pool)
  else
    redis.call('ZADD', K.bell .. pool, 0, 'ring') -- it may have taken a bell with it
  end
end

local holding = false
for _, queue in ipairs(redis.call('SMEMBERS', K.queues)) do
  local work = K.work .. queue
  if #redis.call('XPENDING', work, GROUP, '-', '+', 1, worker) > 0 then
    holding = true
  else
    redis.call('XGROUP', 'DELCONSUMER', work, GROUP, worker)
  end
end
if holding then return cmsgpack.pack('holding') end
if args.forget then
  redis.call('ZREM', K.workers, worker)
  redis.call('DEL', K.worker .. worker, K.inbox .. worker)
end
return cmsgpack.pack('left')
