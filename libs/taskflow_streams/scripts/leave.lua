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
  leave_pool(worker, pool)
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
