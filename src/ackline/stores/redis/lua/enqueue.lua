-- Insert the jobs that are not there yet, and write the keys that came with them.
--
-- ARGV[2]   '1' if no id is given twice
-- ARGV[3]   the leap of a token, see lib/claim.lua
-- ARGV[4]   the room of those keys
-- ARGV[5]   how many of them there are
-- ARGV[6…]  for each: encoded key, expected version or '', 'set' or 'drop', value; then
--           runs of drafts that differ only in id and body, one after the other:
--           kind, priority, group, delay, run_at or '', kinds that they may replace (packed)
--           or '' for any, n, n ids, n rests of bodies
-- Returns   {a letter for each draft, the results of those that are completed already}:
--           'q' or 's' if accepted as queued or scheduled, else the digit of the known job's state
-- Errors    NOQUEUE if the queue must be made first, FULL if it holds as many jobs as it may,
--           KEYSCHANGED if a key has another version
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/key_values.lua
-- include lib/claim.lua
-- include lib/direct_delivery.lua

local queue = open_queue(KEYS[1])
if not queue then
  return redis.error_reply('NOQUEUE')
end

local room, last_key = ARGV[4], 5 + 4 * tonumber(ARGV[5])
if not as_expected(room, 6, last_key) then
  return redis.error_reply('KEYSCHANGED')
end

local STAYS = {[SCHEDULED] = true, [QUEUED] = true, [PROCESSING] = true, [FAILING] = true,
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

-- {where its head stands, its first id, its last one, what it may replace} of each run.
local function read_runs()
  local runs, at = {}, last_key + 1
  while ARGV[at] do
    local count = tonumber(ARGV[at + 6])
    runs[#runs + 1] = {at, at + 7, at + 6 + count, read_replaced(ARGV[at + 5])}
    at = at + 7 + 2 * count
  end
  return runs
end

-- The jobs that have these ids: most drafts are new, so only bodies are looked up first.
local function known_jobs(runs)
  local known, count = {}, 0
  for _, run in ipairs(runs) do
    for index, body in ipairs(get_given('HMGET', queue.base .. ':job', run[2], run[3])) do
      count = count + 1
      if body then
        known[#known + 1] = ARGV[run[2] + index - 1]
      end
    end
  end
  return #known > 0 and load_jobs(queue, known) or {}, #known == 0, count
end

local runs = read_runs()
local known, all_new, drafts = known_jobs(runs)
all_new = all_new and ARGV[2] == '1'

local function stays(id, replaces)
  local job = known[id]
  return job and not job.over
    and (STAYS[job.state] or replaces ~= nil and not replaces[job.kind])
end

-- gate
local function count_new()
  local new, seen = 0, {}
  for _, run in ipairs(runs) do
    for index = run[2], run[3] do
      local id = ARGV[index]
      if not seen[id] and not stays(id, run[4]) then
        new = new + 1
        seen[id] = true
      end
    end
  end
  return new
end

local new = all_new and drafts or count_new()

-- gate
local function fits_in()
  local live = 0
  for _, count in ipairs(redis.call('HMGET', queue.base .. ':counts', 0, 1, 2, 3)) do
    live = live + tonumber(count or 0)
  end
  return new == 0 or live + new <= queue.max_jobs
end

if queue.max_jobs and not fits_in() then
  return redis.error_reply('FULL ' .. whole(queue.max_jobs))
end

write_given(room, 6, last_key)

-- gate
local function replaced_jobs()
  local replaced, seen = {}, {}
  for _, run in ipairs(runs) do
    for index = run[2], run[3] do
      local id = ARGV[index]
      if known[id] and not seen[id] and not stays(id, run[4]) then
        replaced[#replaced + 1] = known[id]
        seen[id] = true
      end
    end
  end
  return replaced
end

local replaced = next(known) and replaced_jobs() or {}
-- No numbers if nothing is new: known jobs are answered even when no memory is left.
local first = new > 0 and next_numbers(new) or 0
if #replaced > 0 then
  drop_jobs(queue, replaced)
end

local letters, results, fresh = {}, {}, {}
local bodies, places, lines, kinds = {}, {}, {}, {}
local number, created = first, struct.pack('>d', now)

local function refuse(id)
  local state = fresh[id] or known[id].state
  letters[#letters + 1] = state
  if state == COMPLETED then
    results[#results + 1] = result_of(queue, known[id])
  end
end

local function place_of(run)
  return struct.pack(
    PLACE, SCHEDULED, 0, 0, 0, run.priority, 0, 0, 0, 0, '', #run.kind, run.kind, #run.group,
    run.group
  ) .. struct.pack(PLACE_END, run.at, number)
end

local function insert(run, id, rest)
  local at, line = 2 * (number - first), run.line
  local packed = struct.pack('>I8', number)
  bodies[at + 1], bodies[at + 2] = id, created .. rest .. packed
  if run.state == SCHEDULED then
    places[#places + 1] = id
    places[#places + 1] = place_of(run)
  end
  line[run.size + 1], line[run.size + 2] = run.score, string.sub(packed, 3) .. id
  run.size = run.size + 2
  number = number + 1
end

local function insert_or_refuse(run, id, rest)
  if fresh[id] or stays(id, run.replaces) then
    return refuse(id)
  end
  local there = known[id]
  local source = there and not there.over and there.state or NOWHERE
  note_job(queue, 'enqueue', source, run.state, 0, '', id, run.kind, 0)
  tell_priority(queue, run.priority, 1)
  insert(run, id, rest)
  fresh[id] = run.state
  letters[#letters + 1] = run.letter
end

local function read_run(at)
  local run = {kind = ARGV[at], priority = tonumber(ARGV[at + 1]), group = ARGV[at + 2]}
  local due, key = tonumber(ARGV[at + 4]) or now + tonumber(ARGV[at + 3]), nil
  if due > now then
    run.state, run.letter, run.at = SCHEDULED, 's', due
    key = queue.base .. ':scheduled'
  else
    run.state, run.letter, run.at = QUEUED, 'q', now - run.priority * queue.ageing
    key = ready_line(queue, run.kind)
    kinds[run.kind] = true
  end
  lines[key] = lines[key] or {}
  run.line, run.size, run.score = lines[key], #lines[key], exact(run.at)
  return run
end

local function insert_all(run, from, to)
  local ids, count = {}, to - from + 1
  for index = 1, count do
    local id = ARGV[from + index - 1]
    insert(run, id, ARGV[to + index])
    ids[index] = id
  end
  note_run(queue, 'enqueue', NOWHERE, run.state, 0, '', '', '', run.kind, 0, ids)
  tell_priority(queue, run.priority, count)
  letters[#letters + 1] = string.rep(run.letter, count)
end

local function insert_runs(insert_run)
  for _, where in ipairs(runs) do
    local run, before = read_run(where[1]), number
    run.replaces = where[4]
    insert_run(run, where[2], where[3])
    shift(queue, nil, run.state, number - before)
  end
end

-- gate
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

-- The only job that this step has made ready, if it may be sent and is in no group.
local function lone_job()
  local kind = next(kinds)
  if not kind or #bodies ~= 2 or #bodies[2] > LARGEST_BODY or ARGV[runs[1][1] + 2] ~= '' then
    return nil
  end
  local line = lines[ready_line(queue, kind)]
  return {id = bodies[1], body = bodies[2], kind = kind, rank = tonumber(line[1]), member = line[2]}
end

local function deliver_if_alone()
  local job = queue.idle and not queue.paused and #runs == 1 and lone_job()
  return job and deliver(queue, job, tonumber(ARGV[3]))
end

-- Nobody has to be woken for a job that was delivered to a waiting worker.
if new > 0 and not deliver_if_alone() then
  call_many('HSET', queue.base .. ':place', places)
  for line, members in pairs(lines) do
    call_many('ZADD', line, members)
  end
  for kind in pairs(kinds) do
    open_line(queue, kind)
  end
  tell(queue, 'ready')
end
close_queue(queue)
return {table.concat(letters), results}
