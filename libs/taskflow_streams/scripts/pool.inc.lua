-- pool.inc.lua: what it means to leave a pool; shared by join.lua and leave.lua.

-- The last of a pool takes its skills along: lanes whose handler nobody has any more are closed, their jobs parked.
local function leave_pool(worker, pool)
  redis.call('SREM', K.members .. pool, worker)
  if redis.call('EXISTS', K.members .. pool) == 1 then
    redis.call('ZADD', K.bell .. pool, 0, 'ring') -- the worker may have taken a bell with it
    return
  end
  for _, handler in ipairs(redis.call('SMEMBERS', K.skills .. pool)) do
    redis.call('SREM', K.able .. handler, pool)
    if redis.call('EXISTS', K.able .. handler) == 0 then
      for _, queue in ipairs(redis.call('SMEMBERS', K.laned .. handler)) do redis.call('SREM', K.lanes .. queue, handler) end
    end
  end
  redis.call('HDEL', K.pools, pool)
  redis.call('DEL', K.skills .. pool, K.bell .. pool)
end
