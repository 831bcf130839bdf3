#!lua flags=no-writes
-- get.lua: jobs as they are at one moment.  (MULTI would do, but Redis 7.0 refuses it, reads and all, while its memory is full.)
--
-- args  list of job ids
--
-- Replies for each {fields, spec, result or false}, `fields` as HGETALL gives them; false for a job that does not exist.

local replies = {}
for i, id in ipairs(args) do
  local fields = redis.call('HGETALL', K.job .. id)
  replies[i] = #fields > 0 and { fields, redis.call('GET', K.spec .. id), redis.call('GET', K.result .. id) }
end
return cmsgpack.pack(replies)
