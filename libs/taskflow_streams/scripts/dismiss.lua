#!lua flags=allow-oom
-- dismiss.lua: forgets readers of the graph that are silent and hold no message.
--
-- args  {group, idle_ms}
--
-- Replies how many.  It looks and forgets in one go: a message that a reader takes in between would be lost with it.

local gone = 0
for _, row in ipairs(redis.call('XINFO', 'CONSUMERS', K.graph, args.group)) do
  local reader = {}
  for i = 1, #row, 2 do reader[row[i]] = row[i + 1] end
  if reader.pending == 0 and reader.idle > args.idle_ms then
    redis.call('XGROUP', 'DELCONSUMER', K.graph, args.group, reader.name)
    gone = gone + 1
  end
end
return cmsgpack.pack(gone)
