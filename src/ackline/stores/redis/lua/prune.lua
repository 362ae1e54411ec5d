-- Drop terminal jobs past their time, old journal batches, and workers long gone.
--
-- ARGV[2]  how many jobs at most
-- ARGV[3]  journal batches before this one are too old
-- ARGV[4]  the first batch that may have events which a registered reader still needs, or ''
-- ARGV[5]  how many events of that batch the reader has had
-- ARGV[6]  how many events the journal keeps at most, even if a reader needs more
-- ARGV[7]  workers that were given up before this time are forgotten
-- Returns  {how many jobs, whether there is more of the journal to drop,
--           how many events were dropped that a reader needs}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/direct_delivery.lua

-- The most batches of the journal that one step drops, so that others can write in between.
local TRIM_LIMIT = 50

local base, queue = KEYS[1], open_queue(KEYS[1])
insist()

local function prune_jobs(limit)
  local count = 0
  for _, state in ipairs({COMPLETED, FAILED, CANCELLED}) do
    local line = queue.base .. ':' .. LINES[state]
    local members =
      redis.call('ZRANGEBYSCORE', line, '-inf', exact(now), 'LIMIT', 0, limit - count)
    local ids = {}
    for index, member in ipairs(members) do
      ids[index] = id_of(member)
    end
    local jobs, dropped = load_jobs(queue, ids), {}
    for index, id in ipairs(ids) do
      local job = jobs[id]
      note(queue, 'prune', state, NOWHERE, 0, '', '', '', id, job.kind, job.attempts)
      dropped[index] = job
    end
    drop_jobs(queue, dropped)
    count = count + #dropped
  end
  return count
end

-- How many events of a batch a registered reader has not seen.
local function unseen(batch, size, needed, used)
  if not needed or batch < needed then
    return 0
  end
  return batch > needed and size or math.max(size - used, 0)
end

-- Drop batches that are too old and not needed, and those beyond what the journal may hold.
local function trim_journal(oldest, needed, used, most)
  local stream = base .. ':journal'
  local events = tonumber(redis.call('HGET', base .. ':queue', 'events') or 0)
  local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  local batch = first and tonumber(string.match(first[1], '^%d+'))
  if not first or (events <= most and batch >= oldest) then
    -- Mostly there is nothing to drop, and the entries are large.
    return false, 0
  end
  local dropped, lost, last, trimmed = 0, 0, nil, nil
  for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+', 'COUNT', TRIM_LIMIT)) do
    local batch, size = tonumber(string.match(entry[1], '^%d+')), tonumber(entry[2][2])
    local behind = unseen(batch, size, needed, used)
    if events <= most and (batch >= oldest or behind > 0) then
      break
    end
    events, lost = events - size, lost + behind
    dropped, last, trimmed = dropped + 1, batch, entry[1] .. ' ' .. size
  end
  if last then
    redis.call('XTRIM', stream, 'MINID', whole(last + 1))
    redis.call('HSET', base .. ':queue', 'events', whole(events), 'trimmed', trimmed)
  end
  return dropped == TRIM_LIMIT, lost
end

local function forget_workers(before)
  local workers, gone = queue.base .. ':workers', {}
  local all = redis.call('HGETALL', workers)
  for index = 1, #all, 2 do
    local _, expires = struct.unpack('>dd', all[index + 1])
    if expires < before then
      gone[#gone + 1] = all[index]
    end
  end
  for _, worker in ipairs(gone) do
    if redis.call('HEXISTS', queue.base .. ':holds', worker) == 0 then
      redis.call('HDEL', workers, worker)
    end
  end
end

-- Long after the last try to send a move again.
local MOVES_REMEMBERED = 3600

-- A queue that was dropped has a journal, and nothing else.
local count = 0
if queue then
  count = prune_jobs(tonumber(ARGV[2]))
  close_queue(queue)
  forget_workers(tonumber(ARGV[7]))
  forget_inboxes(queue)
end
redis.call('ZREMRANGEBYSCORE', base .. ':arrived', '-inf', exact(now - MOVES_REMEMBERED))
local more, lost =
  trim_journal(tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]))
return {count, more and 1 or 0, lost}
