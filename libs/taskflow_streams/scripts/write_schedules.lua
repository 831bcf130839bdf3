#!lua flags=allow-oom
-- write_schedules.lua: makes and changes schedules.  Under the control tag; each of them by itself, and only from the revision seen.
--
-- args  {rows = {{id, rev, spec?, progress?, name?, look?, created?, notes = {…}, ring?}, …}, history, most}
--       rev: the revision it was computed from; 0 makes it.  name: its new one, '' takes it away.  look: when something is to be done;
--       false: never.  ring: tell cron if that is sooner than all it knows.  history: lines that are kept; most: schedules there may be
--
-- Replies a word per row: 'ok', 'changed' (another revision), 'missing', 'existing' (it is there already), 'gone' (it was deleted), 'taken'
-- (another schedule has the name) or 'full' (there are too many).

local function refusal(row)
  local rev = redis.call('HGET', K.schedule .. row.id, 'rev')
  if row.rev == 0 then
    if rev then return 'existing' end
    if redis.call('EXISTS', K.gone .. row.id) == 1 then return 'gone' end
    if redis.call('ZCARD', K.calendar) >= args.most then return 'full' end
  elseif not rev then
    return 'missing'
  elseif tonumber(rev) ~= row.rev then
    return 'changed'
  end
  local holder = row.name and row.name ~= '' and redis.call('HGET', K.names, row.name)
  if holder and holder ~= row.id then return 'taken' end
end

local function write(row)
  local record = K.schedule .. row.id
  local set = { 'rev', row.rev + 1 }
  if row.spec or row.progress or row.name then -- who only says when to look at it does not change it
    set[#set + 1] = 'updated'
    set[#set + 1] = NOW
  end
  for _, field in ipairs({ 'spec', 'progress' }) do
    if row[field] then
      set[#set + 1] = field
      set[#set + 1] = row[field]
    end
  end
  if row.rev == 0 then
    set[#set + 1] = 'created'
    set[#set + 1] = int(row.created)
    redis.call('ZADD', K.calendar, int(row.created), row.id)
  end
  if row.name then
    local before = redis.call('HGET', record, 'name')
    if before then redis.call('HDEL', K.names, before) end
    if row.name == '' then
      redis.call('HDEL', record, 'name')
    else
      redis.call('HSET', K.names, row.name, row.id)
      set[#set + 1] = 'name'
      set[#set + 1] = row.name
    end
  end
  redis.call('HSET', record, unpack(set))
  for _, note in ipairs(row.notes) do
    redis.call('XADD', K.fires .. row.id, 'MAXLEN', '~', args.history, '*', 'at', NOW, 'note', note)
  end
  if row.look then
    redis.call('ZADD', K.schedules, int(row.look), row.id)
    if row.ring and redis.call('ZRANGE', K.schedules, 0, 0)[1] == row.id then
      redis.call('XADD', K.alarm, 'MAXLEN', 1, '*', 'schedule', row.id)
    end
  else
    redis.call('ZREM', K.schedules, row.id)
  end
end

local words = {}
for i, row in ipairs(args.rows) do
  words[i] = refusal(row) or 'ok'
  if words[i] == 'ok' then write(row) end
end
return cmsgpack.pack(words)
