-- log.inc.lua: adds output of an attempt to its job's log; shared by log.lua and report.lua.
--
-- append_log(id, attempt, chunks = {{stream, text}, …}, max_bytes) keeps up to `max_bytes` of each stream of the attempt; a mark stands
-- where the rest was cut.  Returns the bytes that were added, and whether something was cut.

local function append_log(id, attempt, chunks, max_bytes)
  local record, added, cut = K.job .. id, 0, false
  for _, chunk in ipairs(chunks) do
    local stream, text = chunk[1], chunk[2]
    local total = redis.call('HINCRBY', record, 'log_' .. stream, #text)
    local before = total - #text
    local kept = string.sub(text, 1, math.max(0, max_bytes - before))
    if #kept > 0 then
      redis.call('XADD', K.log .. id, '*', 'stream', stream, 'attempt', attempt, 'text', kept)
      added = added + #kept
    end
    if total > max_bytes then
      cut = true
      if before <= max_bytes then
        redis.call('XADD', K.log .. id, '*', 'stream', 'system', 'attempt', attempt,
          'text', '[' .. stream .. ' over ' .. int(max_bytes) .. ' bytes was cut here]\n')
        added = added + 64
      end
    end
  end
  if added > 0 then redis.call('HINCRBY', record, 'logged', added) end
  return added, cut
end
