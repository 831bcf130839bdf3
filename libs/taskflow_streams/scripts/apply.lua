#!lua flags=allow-oom
-- apply.lua: the projector writes what a run of events changes in the indexes, exactly once and in order.
--
-- args  {expected, new, adds = {{index, {score, member, …}}, …}, removes = {{index, {member, …}}, …}, totals = {{field, n}, …},
--       minutes = {{minute, {{field, n}, …}}, …}, minute_ttl_ms}
--
-- Replies {'applied', new} or {'moved', projected} when another projector was faster.

local projected = redis.call('GET', K.projected) or '0-0'
if projected ~= args.expected then return cmsgpack.pack({ 'moved', projected }) end

for _, change in ipairs(args.removes) do redis.call('ZREM', K.index .. change[1], unpack(change[2])) end
for _, change in ipairs(args.adds) do redis.call('ZADD', K.index .. change[1], unpack(change[2])) end
for _, count in ipairs(args.totals) do redis.call('HINCRBY', K.totals, count[1], count[2]) end
for _, minute in ipairs(args.minutes) do
  for _, count in ipairs(minute[2]) do redis.call('HINCRBY', K.minute .. minute[1], count[1], count[2]) end
  redis.call('PEXPIRE', K.minute .. minute[1], args.minute_ttl_ms)
end
redis.call('SET', K.projected, args.new)
return cmsgpack.pack({ 'applied', args.new })
