-- log.inc.lua: adds output of an attempt to its job's log; shared by log.lua and report.lua.
--
-- append_log(id, attempt, chunks = {{stream, text, offset?}, …}, max_bytes): `offset` bytes of that stream of the attempt came before the
-- chunk; what is here already is not added again.  It keeps up to `max_bytes` of each stream of the attempt; a mark stands
-- where the rest was cut.  What all runs of a job keep together is bounded where a run begins (lease.inc.lua).  Returns the bytes that were added, as retention counts them, and whether something was cut.

local ENTRY_BYTES = 24 -- of a stream, beside the text: a log of single characters is mostly that

local function append_log(id, attempt, chunks, max_bytes)
  local record, added, cut = K.job .. id, 0, false
  for _, chunk in ipairs(chunks) do
    local stream, text, offset = chunk[1], chunk[2], chunk[3]
    local before = tonumber(redis.call('HGET', record, 'log_' .. stream) or 0)
    if offset and offset < before then text = string.sub(text, before - offset + 1) end
    local total = #text > 0 and redis.call('HINCRBY', record, 'log_' .. stream, #text) or before
    local kept = string.sub(text, 1, math.max(0, max_bytes - before))
    if #kept > 0 then
      redis.call('XADD', K.log .. id, '*', 'stream', stream, 'attempt', attempt, 'text', kept)
      added = added + #kept + ENTRY_BYTES
    end
    if total > max_bytes then
      cut = true
      if before <= max_bytes and #text > 0 then
        redis.call('XADD', K.log .. id, '*', 'stream', 'system', 'attempt', attempt,
          'text', '[' .. stream .. ' over ' .. int(max_bytes) .. ' bytes was cut here]\n')
        added = added + 64
      end
    end
  end
  if added > 0 then redis.call('HINCRBY', record, 'logged', added) end
  return added, cut
end
