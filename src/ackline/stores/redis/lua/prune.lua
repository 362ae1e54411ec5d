-- Delete jobs past their retention, old journal batches, and workers that died long ago.
--
-- ARGV[2]  the most jobs
-- ARGV[3]  journal batches before this one are too old
-- ARGV[4]  the first batch that may have events which a registered reader still needs, or ''
-- ARGV[5]  how many events of that batch the reader has already read
-- ARGV[6]  the most events that the journal keeps, even if a reader needs more
-- ARGV[7]  workers whose heartbeat expired before this time are deleted
-- Returns  {how many jobs, 1 if more of the journal can be trimmed, else 0,
--           how many of the trimmed events a reader needs}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/direct_delivery.lua

-- The most batches that one call trims, so that others can write in between.
local TRIM_LIMIT = 50

local base, queue = KEYS[1], load_queue(KEYS[1])
allow_when_full()

local function prune_jobs(limit)
  local count = 0
  for _, state in ipairs({COMPLETED, FAILED, CANCELLED}) do
    local list = queue.base .. ':' .. LISTS[state]
    local members =
      redis.call('ZRANGEBYSCORE', list, '-inf', format_float(now), 'LIMIT', 0, limit - count)
    local ids = {}
    for index, member in ipairs(members) do
      ids[index] = id_of(member)
    end
    local jobs, deleted = load_jobs(queue, ids), {}
    for index, id in ipairs(ids) do
      local job = jobs[id]
      add_entry(queue, 'prune', state, NO_STATE, 0, '', '', '', id, job.kind, job.attempts)
      deleted[index] = job
    end
    delete_jobs(queue, deleted)
    count = count + #deleted
  end
  return count
end

-- How many events of a batch a registered reader has not read.
local function unread_events(batch, size, first_needed, read_before)
  if not first_needed or batch < first_needed then
    return 0
  end
  return batch > first_needed and size or math.max(size - read_before, 0)
end

-- Trim batches that are too old and not needed, and those beyond what the journal may keep.
local function trim_journal(oldest, first_needed, read_before, max_events)
  local stream = base .. ':journal'
  local events = tonumber(redis.call('HGET', base .. ':queue', 'events') or 0)
  local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  local batch = first and tonumber(string.match(first[1], '^%d+'))
  if not first or (events <= max_events and batch >= oldest) then
    -- Mostly there is nothing to trim, and the entries are large.
    return false, 0
  end
  local batches, total_unread, last, trimmed = 0, 0, nil, nil
  for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+', 'COUNT', TRIM_LIMIT)) do
    local batch, size = tonumber(string.match(entry[1], '^%d+')), tonumber(entry[2][2])
    local unread = unread_events(batch, size, first_needed, read_before)
    if events <= max_events and (batch >= oldest or unread > 0) then
      break
    end
    events, total_unread = events - size, total_unread + unread
    batches, last, trimmed = batches + 1, batch, entry[1] .. ' ' .. size
  end
  if last then
    redis.call('XTRIM', stream, 'MINID', format_int(last + 1))
    redis.call('HSET', base .. ':queue', 'events', format_int(events), 'trimmed', trimmed)
  end
  return batches == TRIM_LIMIT, total_unread
end

local function delete_dead_workers(before)
  local workers, dead = queue.base .. ':workers', {}
  local all = redis.call('HGETALL', workers)
  for index = 1, #all, 2 do
    local _, expires = struct.unpack('>dd', all[index + 1])
    if expires < before then
      dead[#dead + 1] = all[index]
    end
  end
  for _, worker in ipairs(dead) do
    if redis.call('HEXISTS', queue.base .. ':lease_counts', worker) == 0 then
      redis.call('HDEL', workers, worker)
    end
  end
end

-- Seconds for which the outcome of a finished move is kept: nobody resends it after that.
local MOVE_RETENTION = 3600

-- A queue that was dropped has a journal, and nothing else.
local count = 0
if queue then
  count = prune_jobs(tonumber(ARGV[2]))
  close_queue(queue)
  delete_dead_workers(tonumber(ARGV[7]))
  delete_dead_inboxes(queue)
end
redis.call('ZREMRANGEBYSCORE', base .. ':moves', '-inf', format_float(now - MOVE_RETENTION))
local more, total_unread =
  trim_journal(tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]))
return {count, more and 1 or 0, total_unread}
