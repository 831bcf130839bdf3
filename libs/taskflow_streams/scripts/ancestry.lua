#!lua flags=no-writes
-- ancestry.lua: walks the dependencies upwards, for the cycle check.
--
-- args  {start = {id, …}, limit}: at most about `limit` jobs in one call
--
-- Replies {edges = {{id, {dependency, …}}, …}, depver}.  What is named there and has no edges of its own is where the next call
-- goes on, here or in the partition it belongs to.

local edges, queue, seen, at = {}, {}, {}, 1
for _, id in ipairs(args.start) do queue[#queue + 1] = id; seen[id] = true end
while at <= #queue and #edges < args.limit do
  local id = queue[at]
  at = at + 1
  local needs = redis.call('SMEMBERS', K.needs .. id)
  edges[#edges + 1] = { id, needs }
  for _, dependency in ipairs(needs) do
    if not seen[dependency] then
      seen[dependency] = true
      queue[#queue + 1] = dependency
    end
  end
end
return cmsgpack.pack({ edges, tonumber(redis.call('HGET', K.meta, 'depver') or 0) })
