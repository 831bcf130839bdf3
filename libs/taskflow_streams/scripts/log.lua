#!lua
-- log.lua: attempts add to their output.
--
-- args  {worker, rows = {{id, fence, chunks = {{stream, text}, …}}, …}, max_bytes}: `max_bytes` of each stream of an attempt
--
-- Replies a word for each row: 'ok', 'full' (the limit is reached: the rest is dropped, and a mark says so) or 'stale'.

local words = {}
for i, row in ipairs(args.rows) do
  local id, fence, chunks = row[1], row[2], row[3]
  local held = redis.call('HMGET', K.job .. id, 'state', 'fence', 'worker', 'attempt')
  if held[1] == 'RUNNING' and tonumber(held[2]) == fence and held[3] == args.worker then
    local _, cut = append_log(id, held[4], chunks, args.max_bytes)
    words[i] = cut and 'full' or 'ok'
  else
    words[i] = 'stale'
  end
end
return cmsgpack.pack(words)
