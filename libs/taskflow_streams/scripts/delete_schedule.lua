#!lua flags=allow-oom
-- delete_schedule.lua: removes a schedule and its history.  What it has started is left alone.
--
-- args  its id
--
-- Replies 'deleted' or 'missing'.

local record = K.schedule .. args
if redis.call('EXISTS', record) == 0 then return cmsgpack.pack('missing') end
local name = redis.call('HGET', record, 'name')
if name then redis.call('HDEL', K.names, name) end
redis.call('ZREM', K.schedules, args)
redis.call('ZREM', K.calendar, args)
redis.call('DEL', record, K.fires .. args)
return cmsgpack.pack('deleted')
