-- A queue as one script sees it: the time, its settings, its counts, its journal, its wake-ups.
--
-- Every script has the same first keys and argument:
--   KEYS[1]  the base name of the queue; all its keys start with it and share its hash slot
--   KEYS[2]  the counters (a hash): numbers of jobs and of journal batches
--   ARGV[1]  the time in seconds, or '' for the server's own clock

local SCHEDULED, QUEUED, PROCESSING, FAILING = 0, 1, 2, 3
local COMPLETED, FAILED, CANCELLED = 4, 5, 6
-- The state of a job that does not exist.
local NOWHERE = -1
local LINES = {[0] = 'scheduled', nil, 'processing', 'failing', 'completed', 'failed', 'cancelled'}

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end

-- When memory is short, the server refuses commands that may need more of it, unless the script has
-- written before. Settling, cancelling and purging free memory, so they must not be refused.
local function insist()
  redis.call('HDEL', KEYS[2], '')
end

-- More arguments at once than this would not fit on Lua's stack.
local MOST = 4000

local function call_many(command, key, arguments)
  for first = 1, #arguments, MOST do
    redis.call(command, key, unpack(arguments, first, math.min(first + MOST - 1, #arguments)))
  end
end

local function get_many(command, key, fields)
  if #fields <= MOST then
    return #fields > 0 and redis.call(command, key, unpack(fields)) or {}
  end
  local found = {}
  for first = 1, #fields, MOST do
    local last = math.min(first + MOST - 1, #fields)
    for _, value in ipairs(redis.call(command, key, unpack(fields, first, last))) do
      found[#found + 1] = value
    end
  end
  return found
end

-- The same for a part of the arguments.
local function get_given(command, key, first, last)
  if last - first < MOST then
    return last >= first and redis.call(command, key, unpack(ARGV, first, last)) or {}
  end
  local fields = {}
  for index = first, last do
    fields[index - first + 1] = ARGV[index]
  end
  return get_many(command, key, fields)
end

local function whole(number)
  return string.format('%.0f', number)
end

local function exact(number)
  return string.format('%.17g', number)
end

local SETTINGS = {'ageing', 'paused', 'group_limit', 'max_jobs', 'token', 'idle', 'mark'}

-- nil if there is no such queue.
local function open_queue(base)
  local found = redis.call('HMGET', base .. ':queue', unpack(SETTINGS))
  if not found[1] then
    return nil
  end
  return {
    base = base,
    ageing = tonumber(found[1]),
    paused = found[2] == '1',
    group_limit = tonumber(found[3]),
    max_jobs = tonumber(found[4]),
    token = tonumber(found[5] or 0),
    idle = found[6] == '1',
    mark = found[7],
    shifts = {},
    holds = {},
    journal = {now},
    events = 0,
    priorities = {},
    prioritized = 0,
    topics = {},
  }
end

-- Counts -----------------------------------------------------------------------------------

local function shift(queue, source, to, count)
  local shifts = queue.shifts
  if source then
    shifts[source] = (shifts[source] or 0) - count
  end
  if to then
    shifts[to] = (shifts[to] or 0) + count
  end
end

-- How many jobs a worker holds.
local function hold(queue, worker, count)
  queue.holds[worker] = (queue.holds[worker] or 0) + count
end

-- The first of `count` numbers that were never given out before.
local function next_numbers(count)
  return redis.call('HINCRBY', KEYS[2], 'job', count) - count + 1
end

-- The journal ------------------------------------------------------------------------------
--
-- One entry of the stream for each batch: its time, and runs of entries that differ only in their
-- job. Two other fields have the priorities, see `tell_priority`, and the callback URLs of jobs
-- that have come to their end: flat {number of the entry, URL}.
--   at, {act, from, to, token, worker, note, by, kinds, attempts, ids, {left, entered}} …
-- The kinds are one value that all ids share, or a list with one for each; so are the attempts.
-- Only moves have the last value: the names of the queues that the job has left and entered.

local KINDS, ATTEMPTS, IDS = 8, 9, 10

local function begin_run(queue, act, source, to, token, worker, why, by, kinds, attempts, ids)
  local run = {act, source, to, token, worker, why, by, kinds, attempts, ids}
  queue.journal[#queue.journal + 1] = run
  queue.events = queue.events + #ids
  if to >= COMPLETED or to == NOWHERE then
    queue.topics.finished = true
  end
  return run
end

local function in_common(values)
  if type(values) ~= 'table' then
    return values
  end
  for index = 2, #values do
    if values[index] ~= values[1] then
      return values
    end
  end
  return values[1]
end

-- Many entries at once.
local function note_run(queue, act, source, to, token, worker, why, by, kinds, attempts, ids)
  if #ids > 0 then
    begin_run(queue, act, source, to, token, worker, why, by, in_common(kinds),
      in_common(attempts), ids)
    queue.run = nil
  end
end

-- The values of a run that had `count` entries, and one more value.
local function widened(values, count, value)
  if values == value then
    return values
  elseif type(values) ~= 'table' then
    local common = values
    values = {}
    for index = 1, count do
      values[index] = common
    end
  end
  values[count + 1] = value
  return values
end

-- An entry without a reason, and without who asked for it.
local function note_job(queue, act, source, to, token, worker, id, kind, attempt)
  local run = queue.run
  if
    not run
    or run[1] ~= act
    or run[2] ~= source
    or run[3] ~= to
    or run[4] ~= token
    or run[5] ~= worker
  then
    queue.run = begin_run(queue, act, source, to, token, worker, '', '', kind, attempt, {id})
    return
  end
  local ids = run[IDS]
  local count = #ids
  run[KINDS] = widened(run[KINDS], count, kind)
  run[ATTEMPTS] = widened(run[ATTEMPTS], count, attempt)
  ids[count + 1] = id
  queue.events = queue.events + 1
end

-- An entry with a reason, and with who asked for it.
local function note(queue, act, source, to, token, worker, why, by, id, kind, attempt)
  if why == '' and by == '' then
    return note_job(queue, act, source, to, token, worker, id, kind, attempt)
  end
  begin_run(queue, act, source, to, token, worker, why, by, kind, attempt, {id})
  queue.run = nil
end

-- The entry of a move: the job has left the queue (`to` is NOWHERE) or come to it.
local function note_move(queue, job, source, to, by, moved)
  local run = begin_run(queue, 'move', source, to, 0, '', '', by, job.kind, job.attempts, {job.id})
  run[#run + 1] = moved
  queue.run = nil
end

-- Note that the last `count` entries are about jobs of this priority. A batch that has any
-- priorities has a digit for each entry, or '-' for acts that tell none.
local function tell_priority(queue, priority, count)
  local digits, without = queue.priorities, queue.events - count - queue.prioritized
  digits[#digits + 1] = string.rep('-', without) .. string.rep(whole(priority), count)
  queue.prioritized = queue.events
end

local function tell(queue, topic)
  queue.topics[topic] = true
end

local function publish(queue)
  for topic in pairs(queue.topics) do
    -- Workers that wait for jobs have set `idle`; while none has, nobody has to be woken.
    if topic ~= 'ready' or queue.idle then
      redis.call('PUBLISH', queue.base .. ':' .. topic, topic == 'finished' and queue.ended or '')
    end
  end
  if queue.topics.ready and queue.idle then
    queue.idle = false
    redis.call('HSET', queue.base .. ':queue', 'idle', '0')
  end
  queue.topics = {}
end

-- Write the journal and the counts, and wake the listeners. The last act of a script.
local function close_queue(queue)
  if queue.events > 0 then
    local last = tonumber(redis.call('HGET', KEYS[2], 'batch') or 0)
    local batch = whole(math.max(last + 1, math.floor(now * 1e6)))
    redis.call('HSET', KEYS[2], 'batch', batch)
    local more = queue.prioritized > 0 and {'p', table.concat(queue.priorities)} or {}
    if queue.callbacks then
      more[#more + 1], more[#more + 2] = 'c', cmsgpack.pack(queue.callbacks)
    end
    redis.call('XADD', queue.base .. ':journal', batch .. '-' .. queue.mark, 'n', queue.events, 'e',
      cmsgpack.pack(queue.journal), unpack(more))
    redis.call('HINCRBY', queue.base .. ':queue', 'events', queue.events)
    tell(queue, 'changes')
    queue.journal, queue.run, queue.events = {now}, nil, 0
    queue.priorities, queue.prioritized, queue.callbacks = {}, 0, nil
  end
  for state, count in pairs(queue.shifts) do
    if count ~= 0 then
      redis.call('HINCRBY', queue.base .. ':counts', state, count)
    end
  end
  for worker, count in pairs(queue.holds) do
    if count ~= 0 and redis.call('HINCRBY', queue.base .. ':holds', worker, count) <= 0 then
      redis.call('HDEL', queue.base .. ':holds', worker)
    end
  end
  queue.shifts, queue.holds = {}, {}
  publish(queue)
end
