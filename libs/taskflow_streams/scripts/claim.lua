#!lua
-- claim.lua: ties idempotency keys to job ids.  Under the control tag; the jobs are submitted after it, under the ids replied.
--
-- args  {claims = {{key, id, fingerprint}, …}, ttl_ms}
--
-- Replies {{id, fingerprint, first}, …}: those of the first claim of each key; `first` is 1 when that is this one.

local replies = {}
for i, claim in ipairs(args.claims) do
  local key = K.claim .. claim[1]
  if redis.call('SET', key, claim[2] .. claim[3], 'NX', 'PX', args.ttl_ms) then
    replies[i] = { claim[2], claim[3], 1 }
  else
    local held = redis.call('GET', key)
    replies[i] = { string.sub(held, 1, 36), string.sub(held, 37), 0 }
  end
end
return cmsgpack.pack(replies)
