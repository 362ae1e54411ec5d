-- A queue as a script sees it: the time, its settings, counts, journal and notifications.
--
-- Every script has the same first keys and argument:
--   KEYS[1]  the base name of the queue: all its keys start with it and share its hash slot
--   KEYS[2]  the counters (a hash): the last numbers of jobs and of journal batches
--   ARGV[1]  the time in seconds, or '' for the server's own clock

local SCHEDULED, QUEUED, PROCESSING, FAILING = 0, 1, 2, 3
local COMPLETED, FAILED, CANCELLED = 4, 5, 6
-- The state of a job that does not exist, in the journal.
local NO_STATE = -1
-- The sorted sets of the states; queued jobs have one for each kind.
local LISTS = {[0] = 'scheduled', nil, 'processing', 'failing', 'completed', 'failed', 'cancelled'}

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end

-- A server without free memory rejects commands that may need more of it, unless the script has
-- already written something. Settling, cancelling and purging free memory, so they must not fail.
local function allow_when_full()
  redis.call('HDEL', KEYS[2], '')
end

-- More arguments in one call would not fit on Lua's stack.
local MAX_ARGUMENTS = 4000

local function call_many(command, key, arguments)
  for first = 1, #arguments, MAX_ARGUMENTS do
    local last = math.min(first + MAX_ARGUMENTS - 1, #arguments)
    redis.call(command, key, unpack(arguments, first, last))
  end
end

local function get_many(command, key, fields)
  if #fields <= MAX_ARGUMENTS then
    return #fields > 0 and redis.call(command, key, unpack(fields)) or {}
  end
  local found = {}
  for first = 1, #fields, MAX_ARGUMENTS do
    local last = math.min(first + MAX_ARGUMENTS - 1, #fields)
    for _, value in ipairs(redis.call(command, key, unpack(fields, first, last))) do
      found[#found + 1] = value
    end
  end
  return found
end

-- The same for the fields ARGV[first] to ARGV[last].
local function get_many_from_argv(command, key, first, last)
  if last - first < MAX_ARGUMENTS then
    return last >= first and redis.call(command, key, unpack(ARGV, first, last)) or {}
  end
  local fields = {}
  for index = first, last do
    fields[index - first + 1] = ARGV[index]
  end
  return get_many(command, key, fields)
end

local function format_int(number)
  return string.format('%.0f', number)
end

local function format_float(number)
  return string.format('%.17g', number)
end

local SETTINGS = {'ageing', 'paused', 'group_limit', 'max_jobs', 'token', 'wake_requested', 'mark'}

-- nil if the queue does not exist.
local function load_queue(base)
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
    wake_requested = found[6] == '1',
    mark = found[7],
    count_changes = {},
    lease_changes = {},
    journal = {now},
    events = 0,
    priorities = {},
    prioritized = 0,
    topics = {},
  }
end

-- Counts -----------------------------------------------------------------------------------

local function change_counts(queue, source, to, count)
  local count_changes = queue.count_changes
  if source then
    count_changes[source] = (count_changes[source] or 0) - count
  end
  if to then
    count_changes[to] = (count_changes[to] or 0) + count
  end
end

-- Record that a worker has so many more leases.
local function change_lease_count(queue, worker, count)
  queue.lease_changes[worker] = (queue.lease_changes[worker] or 0) + count
end

-- The first of `count` new job numbers.
local function next_numbers(count)
  return redis.call('HINCRBY', KEYS[2], 'job', count) - count + 1
end

-- The journal ------------------------------------------------------------------------------
--
-- The stream has one entry for each batch: its time, and runs of journal entries that differ only
-- in their job. Two more fields have the priorities, see `add_priorities`, and the callback URLs of
-- finished jobs: flat {number of the entry, URL}.
--   time, {act, from, to, token, worker, note, by, kinds, attempts, ids, {source, target}} …
-- Kinds and attempts are one value for all ids, or a list with one for each. Only moves have the
-- last value, the names of the two queues.

local KINDS, ATTEMPTS, IDS = 8, 9, 10

local function begin_run(queue, act, source, to, token, worker, note, by, kinds, attempts, ids)
  local run = {act, source, to, token, worker, note, by, kinds, attempts, ids}
  queue.journal[#queue.journal + 1] = run
  queue.events = queue.events + #ids
  if to >= COMPLETED or to == NO_STATE then
    queue.topics.finished = true
  end
  return run
end

local function common_value(values)
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

-- Add an entry for each of these ids.
local function add_entries(queue, act, source, to, token, worker, note, by, kinds, attempts, ids)
  if #ids > 0 then
    begin_run(queue, act, source, to, token, worker, note, by, common_value(kinds),
      common_value(attempts), ids)
    queue.run = nil
  end
end

-- The values of a run of `count` entries, with one more value.
local function per_entry_values(values, count, value)
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

-- Add an entry without a note and without the name of who requested the act.
local function add_job_entry(queue, act, source, to, token, worker, id, kind, attempt)
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
  run[KINDS] = per_entry_values(run[KINDS], count, kind)
  run[ATTEMPTS] = per_entry_values(run[ATTEMPTS], count, attempt)
  ids[count + 1] = id
  queue.events = queue.events + 1
end

-- Add an entry with a note and the name of who requested the act.
local function add_entry(queue, act, source, to, token, worker, note, by, id, kind, attempt)
  if note == '' and by == '' then
    return add_job_entry(queue, act, source, to, token, worker, id, kind, attempt)
  end
  begin_run(queue, act, source, to, token, worker, note, by, kind, attempt, {id})
  queue.run = nil
end

-- Add what only some entries have to the last one: `moved` or `recovered_by`.
local function add_details(queue, details)
  local run = queue.journal[#queue.journal]
  run[#run + 1] = details
  queue.run = nil
end

-- Add the entry of a move: the job has left the queue (`to` is NO_STATE) or has entered it.
local function add_move_entry(queue, job, source, to, by, moved)
  begin_run(queue, 'move', source, to, 0, '', '', by, job.kind, job.attempts, {job.id})
  add_details(queue, {moved = moved})
end

-- Record that the last `count` entries are about jobs of this priority. A batch with any priorities
-- has a digit for each entry, or '-' for acts without one.
local function add_priorities(queue, priority, count)
  local digits, without = queue.priorities, queue.events - count - queue.prioritized
  digits[#digits + 1] = string.rep('-', without) .. string.rep(format_int(priority), count)
  queue.prioritized = queue.events
end

local function notify_topic(queue, topic)
  queue.topics[topic] = true
end

local function publish(queue)
  for topic in pairs(queue.topics) do
    -- Workers that wait for jobs set `wake_requested`: without it, nobody needs to be woken.
    if topic ~= 'ready' or queue.wake_requested then
      local message = topic == 'finished' and queue.completion or ''
      redis.call('PUBLISH', queue.base .. ':' .. topic, message)
    end
  end
  if queue.topics.ready and queue.wake_requested then
    queue.wake_requested = false
    redis.call('HSET', queue.base .. ':queue', 'wake_requested', '0')
  end
  queue.topics = {}
end

-- Write the journal and the counts, and notify listeners. Scripts call it last.
local function close_queue(queue)
  if queue.events > 0 then
    local last = tonumber(redis.call('HGET', KEYS[2], 'batch') or 0)
    local batch = format_int(math.max(last + 1, math.floor(now * 1e6)))
    redis.call('HSET', KEYS[2], 'batch', batch)
    local more = queue.prioritized > 0 and {'p', table.concat(queue.priorities)} or {}
    if queue.callbacks then
      more[#more + 1], more[#more + 2] = 'c', cmsgpack.pack(queue.callbacks)
    end
    redis.call('XADD', queue.base .. ':journal', batch .. '-' .. queue.mark, 'n', queue.events, 'e',
      cmsgpack.pack(queue.journal), unpack(more))
    redis.call('HINCRBY', queue.base .. ':queue', 'events', queue.events)
    notify_topic(queue, 'changes')
    queue.journal, queue.run, queue.events = {now}, nil, 0
    queue.priorities, queue.prioritized, queue.callbacks = {}, 0, nil
  end
  for state, count in pairs(queue.count_changes) do
    if count ~= 0 then
      redis.call('HINCRBY', queue.base .. ':counts', state, count)
    end
  end
  for worker, count in pairs(queue.lease_changes) do
    if count ~= 0 and redis.call('HINCRBY', queue.base .. ':lease_counts', worker, count) <= 0 then
      redis.call('HDEL', queue.base .. ':lease_counts', worker)
    end
  end
  queue.count_changes, queue.lease_changes = {}, {}
  publish(queue)
end
