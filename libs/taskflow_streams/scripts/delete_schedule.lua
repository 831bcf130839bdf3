#!lua flags=allow-oom
-- delete_schedule.lua: removes a schedule and its history.  What it has started is left alone.  A mark remains for a while, so that the request that
-- made it, should it come again, does not make it again.
--
-- args  {id, keep_ms}
--
-- Replies 'deleted' or 'missing'.

local id = args.id
local record = K.schedule .. id
if redis.call('EXISTS', record) == 0 then return cmsgpack.pack('missing') end
local name = redis.call('HGET', record, 'name')
if name then redis.call('HDEL', K.names, name) end
redis.call('ZREM', K.schedules, id)
redis.call('ZREM', K.calendar, id)
redis.call('DEL', record, K.fires .. id)
redis.call('SET', K.gone .. id, '1', 'PX', args.keep_ms)
return cmsgpack.pack('deleted')
