#!lua flags=allow-oom
-- poke_schedules.lua: a run that a schedule waits for has ended.  The revision grows, so that who is just settling the schedule looks again.
--
-- args  list of schedules' ids
--
-- Replies 'ok'.  Safe to repeat.

for _, id in ipairs(args) do
  if redis.call('EXISTS', K.schedule .. id) == 1 then
    redis.call('HINCRBY', K.schedule .. id, 'rev', 1)
    redis.call('ZADD', K.schedules, NOW, id)
    redis.call('XADD', K.alarm, 'MAXLEN', 1, '*', 'schedule', id)
  end
end
return cmsgpack.pack('ok')
