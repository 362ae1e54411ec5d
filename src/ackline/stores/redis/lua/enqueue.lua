-- Insert the jobs that do not exist yet, and write the keys that came with them.
--
-- ARGV[2]   '1' if no id is given twice
-- ARGV[3]   the token_jump, see lib/claim.lua
-- ARGV[4]   the base name of those keys
-- ARGV[5]   how many keys there are
-- ARGV[6…]  for each key: encoded key, expected version or '', 'set' or 'delete', value; then runs
--           of drafts that differ only in id and body, one after the other: kind, priority, group,
--           delay, run_at or '', the kinds that they may replace (packed) or '' for any, n, n ids,
--           n bodies without creation time and number
-- Returns   {a code for each draft, the results of those that have already completed}:
--           'q' or 's' if accepted as queued or scheduled, else the digit of the existing job's
--           state
-- Errors    NOQUEUE if the queue must be created first, FULL if it has no capacity for the jobs,
--           KEYSCHANGED if a key has another version
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/key_values.lua
-- include lib/claim.lua
-- include lib/direct_delivery.lua

local queue = load_queue(KEYS[1])
if not queue then
  return redis.error_reply('NOQUEUE')
end

local keys_base, last_key = ARGV[4], 5 + 4 * tonumber(ARGV[5])
if not versions_match(keys_base, 6, last_key) then
  return redis.error_reply('KEYSCHANGED')
end

local KEEPS_ID = {[SCHEDULED] = true, [QUEUED] = true, [PROCESSING] = true, [FAILING] = true,
  [COMPLETED] = true}

-- A set of the kinds that may be replaced, nil if any may.
local function read_replaced(packed)
  if packed == '' then
    return nil
  end
  local kinds = {}
  for _, kind in ipairs(cmsgpack.unpack(packed)) do
    kinds[kind] = true
  end
  return kinds
end

-- Of each run, {index of its first argument, of its first id, of its last id, what it may replace}.
local function read_runs()
  local runs, at = {}, last_key + 1
  while ARGV[at] do
    local count = tonumber(ARGV[at + 6])
    runs[#runs + 1] = {at, at + 7, at + 6 + count, read_replaced(ARGV[at + 5])}
    at = at + 7 + 2 * count
  end
  return runs
end

-- The jobs that have these ids. Most drafts are new, so this first reads only bodies.
local function existing_jobs(runs)
  local existing, count = {}, 0
  for _, run in ipairs(runs) do
    for index, body in ipairs(get_many_from_argv('HMGET', queue.base .. ':job', run[2], run[3])) do
      count = count + 1
      if body then
        existing[#existing + 1] = ARGV[run[2] + index - 1]
      end
    end
  end
  return #existing > 0 and load_jobs(queue, existing) or {}, #existing == 0, count
end

local runs = read_runs()
local existing, all_new, drafts = existing_jobs(runs)
all_new = all_new and ARGV[2] == '1'

local function keeps_id(id, replaces)
  local job = existing[id]
  return job and not job.past_retention
    and (KEEPS_ID[job.state] or replaces ~= nil and not replaces[job.kind])
end

-- on_demand
local function count_new()
  local new, seen = 0, {}
  for _, run in ipairs(runs) do
    for index = run[2], run[3] do
      local id = ARGV[index]
      if not seen[id] and not keeps_id(id, run[4]) then
        new = new + 1
        seen[id] = true
      end
    end
  end
  return new
end

local new = all_new and drafts or count_new()

-- on_demand
local function has_capacity()
  local live = 0
  for _, count in ipairs(redis.call('HMGET', queue.base .. ':counts', 0, 1, 2, 3)) do
    live = live + tonumber(count or 0)
  end
  return new == 0 or live + new <= queue.max_jobs
end

if queue.max_jobs and not has_capacity() then
  return redis.error_reply('FULL ' .. format_int(queue.max_jobs))
end

write_keys_from_argv(keys_base, 6, last_key)

-- on_demand
local function replaced_jobs()
  local replaced, seen = {}, {}
  for _, run in ipairs(runs) do
    for index = run[2], run[3] do
      local id = ARGV[index]
      if existing[id] and not seen[id] and not keeps_id(id, run[4]) then
        replaced[#replaced + 1] = existing[id]
        seen[id] = true
      end
    end
  end
  return replaced
end

local replaced = next(existing) and replaced_jobs() or {}
-- No numbers if nothing is new: that would fail when no memory is left.
local first = new > 0 and next_numbers(new) or 0
if #replaced > 0 then
  delete_jobs(queue, replaced)
end

local codes, results, inserted = {}, {}, {}
local bodies, packed_states, lists, kinds = {}, {}, {}, {}
local number, created = first, struct.pack('>d', now)

local function refuse(id)
  local state = inserted[id] or existing[id].state
  codes[#codes + 1] = state
  if state == COMPLETED then
    results[#results + 1] = result_of(queue, existing[id])
  end
end

local function scheduled_state(run)
  return struct.pack(
    STATE, SCHEDULED, 0, 0, 0, run.priority, 0, 0, 0, 0, '', #run.kind, run.kind, #run.group,
    run.group
  ) .. struct.pack(STATE_END, run.at, number)
end

local function insert(run, id, rest)
  local at, list = 2 * (number - first), run.list
  local packed = struct.pack('>I8', number)
  bodies[at + 1], bodies[at + 2] = id, created .. rest .. packed
  if run.state == SCHEDULED then
    packed_states[#packed_states + 1] = id
    packed_states[#packed_states + 1] = scheduled_state(run)
  end
  list[run.size + 1], list[run.size + 2] = run.score, string.sub(packed, 3) .. id
  run.size = run.size + 2
  number = number + 1
end

local function insert_or_refuse(run, id, rest)
  if inserted[id] or keeps_id(id, run.replaces) then
    return refuse(id)
  end
  local old = existing[id]
  local source = old and not old.past_retention and old.state or NO_STATE
  add_job_entry(queue, 'enqueue', source, run.state, 0, '', id, run.kind, 0)
  add_priorities(queue, run.priority, 1)
  insert(run, id, rest)
  inserted[id] = run.state
  codes[#codes + 1] = run.code
end

local function read_run(at)
  local run = {kind = ARGV[at], priority = tonumber(ARGV[at + 1]), group = ARGV[at + 2]}
  local due, key = tonumber(ARGV[at + 4]) or now + tonumber(ARGV[at + 3]), nil
  if due > now then
    run.state, run.code, run.at = SCHEDULED, 's', due
    key = queue.base .. ':scheduled'
  else
    run.state, run.code, run.at = QUEUED, 'q', now - run.priority * queue.ageing
    key = ready_key(queue, run.kind)
    kinds[run.kind] = true
  end
  lists[key] = lists[key] or {}
  run.list, run.size, run.score = lists[key], #lists[key], format_float(run.at)
  return run
end

local function insert_all(run, from, to)
  local ids, count = {}, to - from + 1
  for index = 1, count do
    local id = ARGV[from + index - 1]
    insert(run, id, ARGV[to + index])
    ids[index] = id
  end
  add_entries(queue, 'enqueue', NO_STATE, run.state, 0, '', '', '', run.kind, 0, ids)
  add_priorities(queue, run.priority, count)
  codes[#codes + 1] = string.rep(run.code, count)
end

local function insert_runs(insert_run)
  for _, bounds in ipairs(runs) do
    local run, before = read_run(bounds[1]), number
    run.replaces = bounds[4]
    insert_run(run, bounds[2], bounds[3])
    change_counts(queue, nil, run.state, number - before)
  end
end

-- on_demand
local function insert_one_by_one()
  insert_runs(function(run, from, to)
    for index = from, to do
      insert_or_refuse(run, ARGV[index], ARGV[index + to - from + 1])
    end
  end)
end

if all_new then
  insert_runs(insert_all)
else
  insert_one_by_one()
end

call_many('HSET', queue.base .. ':job', bodies)

-- The job, if it is the only one that was queued, small enough to be sent and in no group.
local function single_job()
  local kind = next(kinds)
  if not kind or #bodies ~= 2 or #bodies[2] > MAX_BODY or ARGV[runs[1][1] + 2] ~= '' then
    return nil
  end
  local list = lists[ready_key(queue, kind)]
  return {id = bodies[1], body = bodies[2], kind = kind, rank = tonumber(list[1]), member = list[2]}
end

local function deliver_single()
  local job = queue.wake_requested and not queue.paused and #runs == 1 and single_job()
  return job and deliver(queue, job, tonumber(ARGV[3]))
end

-- No worker has to be woken for a job that was delivered to one.
if new > 0 and not deliver_single() then
  call_many('HSET', queue.base .. ':state', packed_states)
  for list, members in pairs(lists) do
    call_many('ZADD', list, members)
  end
  for kind in pairs(kinds) do
    register_kind(queue, kind)
  end
  notify_topic(queue, 'ready')
end
close_queue(queue)
return {table.concat(codes), results}
