#!lua flags=allow-oom
-- unclaim.lua: forgets idempotency keys whose jobs were refused, unless they have been tied to other jobs since.
--
-- args  list of {key, id}
--
-- Replies 'ok'.

for _, claim in ipairs(args) do
  local key = K.claim .. claim[1]
  if string.sub(redis.call('GET', key) or '', 1, 36) == claim[2] then redis.call('DEL', key) end
end
return cmsgpack.pack('ok')
