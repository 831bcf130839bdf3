#!lua
-- log.lua: an attempt adds to its output.
--
-- args  {worker, id, fence, chunks = {{stream, text}, …}, max_bytes}
--
-- Replies 'ok', 'full' (the limit is reached: the rest is dropped, and a mark says so) or 'stale'.

local job = load_job(args.id)
if not holds(job, args.worker, args.fence) then return cmsgpack.pack('stale') end

local logged = tonumber(job.logged or 0)
if logged > args.max_bytes then return cmsgpack.pack('full') end
for _, chunk in ipairs(args.chunks) do
  local room = args.max_bytes - logged
  local text = string.sub(chunk[2], 1, math.max(0, room))
  if #text > 0 then
    redis.call('XADD', K.log .. args.id, '*', 'stream', chunk[1], 'attempt', job.attempt, 'text', text)
  end
  logged = logged + #chunk[2]
  if logged > args.max_bytes then
    redis.call('XADD', K.log .. args.id, '*', 'stream', 'system', 'attempt', job.attempt,
      'text', '[output over ' .. int(args.max_bytes) .. ' bytes was cut here]')
    break
  end
end
redis.call('HSET', K.job .. args.id, 'logged', logged)
return cmsgpack.pack(logged > args.max_bytes and 'full' or 'ok')
