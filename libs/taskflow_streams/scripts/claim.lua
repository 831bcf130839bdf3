#!lua
-- claim.lua: ties idempotency keys to job ids.  Under the control tag; the jobs are submitted after it, under the ids replied.
--
-- args  {claims = {{key, id, fingerprint}, …}, ttl_ms}
--
-- Replies {{id, fingerprint, first}, …}: those of the first claim of each key; `first` is 1 when that is this one.  When one of
-- the keys is tied to another fingerprint, none is claimed.

local held, clash = {}, false
for i, claim in ipairs(args.claims) do
  held[i] = redis.call('GET', K.claim .. claim[1])
  clash = clash or (held[i] and string.sub(held[i], 37) ~= claim[3])
end

local replies = {}
for i, claim in ipairs(args.claims) do
  local key, value = K.claim .. claim[1], claim[2] .. claim[3]
  local first = not held[i] and not clash and redis.call('SET', key, value, 'NX', 'PX', args.ttl_ms)
  if not first then value = held[i] or redis.call('GET', key) or value end
  replies[i] = { string.sub(value, 1, 36), string.sub(value, 37), first and 1 or 0 }
end
return cmsgpack.pack(replies)
