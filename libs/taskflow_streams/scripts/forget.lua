#!lua flags=allow-oom
-- forget.lua: jobs of other partitions have been told, or do not exist any more.
--
-- args  {dependency, jobs = {…}, erased}: with `erased` they do not name it any more either

for _, id in ipairs(args.jobs) do
  redis.call('SREM', K.waited .. args.dependency, id)
  if args.erased then redis.call('SREM', K.deps .. args.dependency, id) end
end
return cmsgpack.pack('ok')
