#!lua flags=no-writes
-- unchanged_schedules.lua: which schedules are still at the revision that somebody has in hand.
--
-- args  list of {id, rev}
--
-- Replies a list of 1 (it is) and 0.

local same = {}
for i, row in ipairs(args) do
  same[i] = tonumber(redis.call('HGET', K.schedule .. row[1], 'rev')) == row[2] and 1 or 0
end
return cmsgpack.pack(same)
