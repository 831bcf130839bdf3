#!lua flags=allow-oom
-- resync.lua: after a lost reply, what the worker holds without knowing it goes back at no cost.
--
-- args  {worker, tokens = {{id, fence}, …}}: all the leases it knows of
--
-- Replies the number of jobs given back.

local knows = {}
for _, token in ipairs(args.tokens) do knows[token[1]] = token[2] end

local most = #args.tokens + 1000 -- the unknown are the newest, and one call leases at most 500
local back = 0
for _, queue in ipairs(redis.call('SMEMBERS', K.queues)) do
  local work = K.work .. queue
  for _, pending in ipairs(redis.call('XPENDING', work, GROUP, '-', '+', most, args.worker)) do
    local entry = redis.call('XRANGE', work, pending[1], pending[1])[1]
    local id = entry and entry[2][1]
    local fence = entry and tonumber(entry[2][2])
    if not entry then
      redis.call('XACK', work, GROUP, pending[1])
    elseif knows[id] ~= fence then
      local job = load_job(id)
      if holds(job, args.worker, fence) then
        drop_lease(job)
        if job.cancel then
          end_job(id, job, 'CANCELED', 'job.canceled')
        else
          give_back(id, job)
        end
        back = back + 1
      else
        redis.call('XACK', work, GROUP, pending[1])
        redis.call('XDEL', work, pending[1])
      end
    end
  end
end

flush()
return cmsgpack.pack(back)
