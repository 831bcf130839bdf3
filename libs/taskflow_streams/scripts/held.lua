#!lua flags=allow-oom
-- held.lua: the leases a worker has, also those it does not know of.
--
-- args  {worker, limit}
--
-- Replies a list of {id, fence}.

local found = {}
for _, queue in ipairs(redis.call('SMEMBERS', K.queues)) do
  local work = K.work .. queue
  for _, pending in ipairs(redis.call('XPENDING', work, GROUP, '-', '+', args.limit, args.worker)) do
    local entry = redis.call('XRANGE', work, pending[1], pending[1])[1]
    if entry then found[#found + 1] = { entry[2][1], tonumber(entry[2][2]) } end
  end
end
return cmsgpack.pack(found)
