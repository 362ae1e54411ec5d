-- Apply transitions that were decided elsewhere, each if its guards hold.
--
-- ARGV has runs of transitions that differ only in id and data, one after the other:
--   transition (packed), n, n ids, and if the transition has data: n of them
-- A transition is a map; encode_transitions.py makes it:
--   act, by, note          for the journal
--   recovered_by           for the journal: what expired the lease
--   code                   of an act that ends a lease
--   token, deadline        guards: the lease must have them
--   unlapsed               guard: the lease must not have lapsed
--   expected               guard: the job must have this {state, token, priority, payload, at}
--   destinations           for each state: false, or {new state, position rule, seconds}
--   if_cancel_requested    the destination of a job with a cancel request, if that differs
--   attempts               the job's new number of attempts
--   data                   what the data is: 'result', 'attempt', 'progress' or 'payload'
--   priority               the new priority
--   with_priority          whether the journal gets the priority, new or not
--   with_callback          whether the journal gets the job's callback URL, if it finishes
--   undelivered_keys       to be written with the payload as their value, if it fails for good
--   target                 of a move: {base, registry, entry, settings} of the other queue
--   moved                  of a move: the names of this queue and the other
--   plain_completion       a completion with a token and no callback; no id of the run comes twice
--   repeatable             if it is refused, return how the last lease ended: it may be a repeat

-- The most attempts in the history of one job.
local HISTORY_LIMIT = 100

local function compute_at(queue, job, destination, old_priority)
  local rule, seconds = destination[2], destination[3]
  if rule == 'delay' then
    return now + seconds
  elseif rule == 'new_rank' then
    return now - job.priority * queue.ageing
  elseif rule == 'old_rank' then
    return job.rank
  elseif destination[1] == QUEUED then
    return job.rank + (old_priority - job.priority) * queue.ageing
  end
  return at_of(queue, job)
end

-- The options (packed) and the payload of a job.
local function options_and_payload(queue, id)
  local body = redis.call('HGET', queue.base .. ':job', id)
  local payload, options = find_payload(body)
  return string.sub(body, options, payload - 1), string.sub(body, payload, -9)
end

local function is_as_expected(queue, job, expected)
  local _, payload = options_and_payload(queue, job.id)
  return job.state == expected.state
    and job.token == expected.token
    and job.priority == expected.priority
    and payload == expected.payload
    and (not expected.at or at_of(queue, job) == expected.at)
end

-- The destination if all guards hold, else nil.
local function check_guard(queue, job, transition)
  local destination = transition.destinations[job.state + 1]
  if not destination then
    return nil
  end
  if transition.token and transition.token ~= job.token then
    return nil
  end
  if transition.deadline and transition.deadline ~= at_of(queue, job) then
    return nil
  end
  if transition.unlapsed and at_of(queue, job) <= now then
    return nil
  end
  if transition.expected and not is_as_expected(queue, job, transition.expected) then
    return nil
  end
  if transition.if_cancel_requested and has_flag(job, CANCEL_REQUESTED) then
    return transition.if_cancel_requested
  end
  return destination
end

local function record_attempt(queue, job, attempt)
  local history = queue.base .. ':history:' .. job.id
  local head = struct.pack('>I4ddHc0', job.attempts, now, job.started, #job.worker, job.worker)
  if redis.call('RPUSH', history, head .. attempt) > HISTORY_LIMIT then
    redis.call('LPOP', history)
  end
  set_flag(job, HISTORY)
end

local function rewrite_body(queue, job, transition, data)
  local bodies = queue.base .. ':job'
  local body = redis.call('HGET', bodies, job.id)
  if transition.data == 'payload' then
    body = string.sub(body, 1, find_payload(body) - 1) .. data .. string.sub(body, -8)
  end
  if transition.priority then
    body = string.sub(body, 1, 8) .. string.char(transition.priority) .. string.sub(body, 10)
    job.priority = transition.priority
  end
  redis.call('HSET', bodies, job.id, body)
end

-- Add the callback URL of this job to the last journal entry.
local function add_callback(queue, id)
  local options = options_and_payload(queue, id)
  local url = options ~= '' and cmsgpack.unpack(options).callback_url
  if url then
    queue.callbacks = queue.callbacks or {}
    table.insert(queue.callbacks, queue.events)
    table.insert(queue.callbacks, url)
  end
end

local function end_lease(queue, job, transition, data)
  if transition.data == 'attempt' then
    record_attempt(queue, job, data)
  end
  change_lease_count(queue, job.worker, -1)
  job.act = transition.code
  clear_flag(job, CANCEL_REQUESTED)
end

local function store_result(queue, job, result)
  set_flag(job, result_flag(result))
  if has_flag(job, SHORT_RESULT) then
    job.result = result
  else
    redis.call('HSET', queue.base .. ':result', job.id, result)
  end
end

local function apply_to_job(queue, job, transition, data, destination)
  local source, to, old_priority = job.state, destination[1], job.priority
  add_entry(queue, transition.act, source, to, job.token, job.worker, transition.note,
    transition.by, job.id, job.kind, job.attempts)
  if transition.recovered_by then
    add_details(queue, {recovered_by = transition.recovered_by})
  end
  if transition.data == 'progress' then
    redis.call('HSET', queue.base .. ':progress', job.id, data)
    set_flag(job, PROGRESS)
  elseif transition.act == 'request_cancel' then
    set_flag(job, CANCEL_REQUESTED)
  end
  if source == PROCESSING and to ~= PROCESSING then
    end_lease(queue, job, transition, data)
  end
  job.attempts = transition.attempts or job.attempts
  if transition.priority or transition.data == 'payload' then
    rewrite_body(queue, job, transition, data)
  end
  if transition.with_priority then
    add_priorities(queue, job.priority, 1)
  end
  if transition.with_callback and to >= COMPLETED then
    add_callback(queue, job.id)
  end
  job.at = compute_at(queue, job, destination, old_priority)
  job.state = to
  if to == QUEUED then
    job.rank = job.at
  end
  if source ~= to then
    clear_flag(job, PARKED)
    change_counts(queue, source, to, 1)
    if to >= COMPLETED then
      job.finished = now
      if transition.data == 'result' then
        store_result(queue, job, data)
      end
    else
      job.finished = 0
    end
  end
end

local function notify_listeners(queue, transition, job)
  if transition.act == 'request_cancel' then
    notify_topic(queue, 'cancel_requests')
  elseif job.state == QUEUED or job.state == SCHEDULED or job.state == FAILING then
    notify_topic(queue, 'ready')
  end
end

-- The runs in ARGV[at] and on: {transition, index of its first id, index of its last id}.
local function read_runs(at)
  local runs = {}
  while ARGV[at] do
    local transition, first = cmsgpack.unpack(ARGV[at]), at + 2
    local last = at + 1 + tonumber(ARGV[at + 1])
    runs[#runs + 1] = {transition, first, last}
    at = last + 1 + (transition.data and last - first + 1 or 0)
  end
  return runs
end

-- What states have in common that have this middle; whether they have this token.
local function read_middle(middle, token)
  local _, attempts, found, _, worker, kind, group = struct.unpack(MIDDLE, middle)
  return {token_matches = found == token, worker = worker, kind = kind, group = group,
    attempts = attempts, text = middle, fronts = {}}
end

-- The state of a completed job up to its result; `added` is the flag of the result.
local function completed_front(shared, transition, flags, added)
  local kept = bit.bor(bit.band(flags, bit.bnot(CANCEL_REQUESTED)), added)
  local front = struct.pack(FRONT, COMPLETED, transition.code, kept, now) .. shared.text
  shared.fronts[flags + 256 * added] = front
  return front
end

-- Add a verdict, `count` times, to the answer, which is flat {verdict, how many in a row}.
local function add_verdict(answer, verdict, count)
  local size = #answer
  if answer[size - 1] == verdict then
    answer[size] = answer[size] + count
  else
    answer[size + 1], answer[size + 2] = verdict, count
  end
end

-- Add the verdicts of a run in which some jobs did not have this lease: they were already settled,
-- or another worker has them now. `matched` has the jobs that had it, by their number in the run.
-- on_demand
local function add_verdicts_one_by_one(queue, answer, first, last, matched)
  local unmatched = {}
  for index = first, last do
    if not matched[index - first + 1] then
      unmatched[#unmatched + 1] = ARGV[index]
    end
  end
  local jobs = load_jobs(queue, unmatched)
  for index = first, last do
    local job = jobs[ARGV[index]]
    local refused = job and not job.past_retention and REFUSED + job.state or NO_JOB
    add_verdict(answer, matched[index - first + 1] and COMPLETED or refused, 1)
  end
end

-- The most bytes of a result that is published: listeners read larger ones from the store.
local MAX_PUBLISHED_RESULT = 4096

-- Set what listeners get if only one job has completed: the length of its id, the id, then '1' and
-- the result, or '0' for none; nothing if they must read the result from the store.
local function set_completion(queue, id, result)
  if not result or #result <= MAX_PUBLISHED_RESULT then
    queue.completion = struct.pack('>Hc0', #id, id) .. (result and '1' .. result or '0')
  end
end

-- Complete leases of one claim: they have one token, so all belong to one worker. No job has to be
-- unpacked for that. Returns how many, and the id and the result of the last one.
local function complete_run(queue, transition, first, last, answer, freed)
  local sub, byte, find = string.sub, string.byte, string.find
  local at = format_float(now + transition.destinations[PROCESSING + 1][3])
  local matched, shared, all_shared = {}, nil, {}
  local leaving, entering, saving, results = {}, {}, {}, {}
  local ids, kinds, attempts, count, worker, result = {}, {}, {}, 0, nil, nil
  local packed_states = get_many_from_argv('HMGET', queue.base .. ':state', first, last)
  for index = 1, last - first + 1 do
    local id, packed = ARGV[first + index - 1], packed_states[index]
    local leased = packed and byte(packed) == PROCESSING
    if leased and not (shared and find(packed, shared.text, MIDDLE_AT, true) == MIDDLE_AT) then
      local middle = sub(packed, MIDDLE_AT, -STATE_END_SIZE - 1)
      shared = all_shared[middle] or read_middle(middle, transition.token)
      all_shared[middle] = shared
    end
    if leased and shared.token_matches then
      local flags, size = byte(packed, FLAGS_AT), 2 * count
      local member = sub(packed, -MEMBER_NUMBER) .. id
      local short, added = '', 0
      if transition.data then
        result = ARGV[last + index]
        added = result_flag(result)
        if added == SHORT_RESULT then
          short = result
        else
          results[#results + 1], results[#results + 2] = id, result
        end
      end
      entering[size + 1], entering[size + 2] = at, member
      saving[size + 1] = id
      local front = shared.fronts[flags + 256 * added]
        or completed_front(shared, transition, flags, added)
      saving[size + 2] = front .. short .. sub(packed, -STATE_END_SIZE)
      if shared.group ~= '' then
        freed[shared.group] = (freed[shared.group] or 0) + 1
      end
      count, worker = count + 1, shared.worker
      leaving[count], matched[index] = member, true
      ids[count], kinds[count], attempts[count] = id, shared.kind, shared.attempts
    end
  end
  if count > 0 then
    add_entries(queue, transition.act, PROCESSING, COMPLETED, transition.token, worker,
      transition.note, transition.by, kinds, attempts, ids)
    change_lease_count(queue, worker, -count)
  end
  call_many('ZREM', queue.base .. ':processing', leaving)
  call_many('ZADD', queue.base .. ':completed', entering)
  call_many('HSET', queue.base .. ':state', saving)
  call_many('HSET', queue.base .. ':result', results)
  change_counts(queue, PROCESSING, COMPLETED, count)
  if count == last - first + 1 then
    add_verdict(answer, COMPLETED, count)
  else
    add_verdicts_one_by_one(queue, answer, first, last, matched)
  end
  return count, ids[count], result
end

-- Apply runs that are all plain completions, as most are.
-- on_demand
local function complete_all(queue, runs)
  local answer, freed, total, id, result = {}, {}, 0, nil, nil
  for _, run in ipairs(runs) do
    local count, last_id, last_result = complete_run(queue, run[1], run[2], run[3], answer, freed)
    if count > 0 then
      total, id, result = total + count, last_id, last_result
    end
  end
  if total == 1 then
    set_completion(queue, id, result)
  end
  return answer, freed
end

local function apply_one(queue, job, transition, data, changed, freed)
  if not job or job.has_moved or past_retention(queue, job) then
    return NO_JOB
  end
  local destination = check_guard(queue, job, transition)
  if not destination then
    return REFUSED + job.state
  end
  if transition.target then
    return move_job(queue, job, transition, freed)
  end
  local source = job.state
  apply_to_job(queue, job, transition, data, destination)
  notify_listeners(queue, transition, job)
  track_group(queue, freed, job, source)
  if not job.changed then
    job.changed = true
    changed[#changed + 1] = job
  end
  if transition.undelivered_keys and job.state == FAILED then
    -- Only now, not if it is sent again: keys that were deleted since must not come back.
    local _, payload = options_and_payload(queue, job.id)
    for _, name in ipairs(transition.undelivered_keys) do
      write_key(KEYS[3], name, payload)
    end
  end
  return job.state
end

-- on_demand
local function apply_all(queue, runs)
  local ids = {}
  for _, run in ipairs(runs) do
    for index = run[2], run[3] do
      ids[#ids + 1] = ARGV[index]
    end
  end
  local jobs, answer, changed, freed = load_jobs(queue, ids), {}, {}, {}
  for _, run in ipairs(runs) do
    local transition, first, last = run[1], run[2], run[3]
    for index = first, last do
      local data = transition.data and ARGV[last + 1 + index - first]
      add_verdict(answer, apply_one(queue, jobs[ARGV[index]], transition, data, changed, freed), 1)
    end
  end
  local remaining = {}
  for _, job in ipairs(changed) do
    if not job.has_moved then
      remaining[#remaining + 1] = job
    end
  end
  save_jobs(queue, remaining)
  return answer, freed
end

local function all_plain_completions(runs)
  for _, run in ipairs(runs) do
    if not run[1].plain_completion then
      return false
    end
  end
  return true
end

local function any_refused(answer)
  for index = 1, #answer, 2 do
    if answer[index] >= REFUSED then
      return true
    end
  end
  return false
end

local function expand_runs(answer)
  local verdicts = {}
  for index = 1, #answer, 2 do
    for _ = 1, answer[index + 1] do
      verdicts[#verdicts + 1] = answer[index]
    end
  end
  return verdicts
end

-- How the last leases ended of jobs whose transitions were refused: flat {id, state or '', result,
-- history}. Read here, not in a call of its own: that could fail after jobs were claimed.
-- on_demand
local function read_last_leases(queue, runs, answer)
  local last_leases, number, verdicts = {}, 0, expand_runs(answer)
  for _, run in ipairs(runs) do
    for index = run[2], run[3] do
      number = number + 1
      if run[1].repeatable and verdicts[number] >= REFUSED then
        local id, size = ARGV[index], #last_leases
        local packed = redis.call('HGET', queue.base .. ':state', id)
        local job = packed and read_state(id, packed) or {flags = 0}
        last_leases[size + 1], last_leases[size + 2] = id, packed or ''
        last_leases[size + 3] = result_of(queue, job)
        last_leases[size + 4] = has_flag(job, HISTORY)
            and redis.call('LRANGE', queue.base .. ':history:' .. id, 0, -1)
          or {}
      end
    end
  end
  return last_leases
end

-- Returns the verdicts as `add_verdict` has them, how many leases of each group ended, and what
-- `read_last_leases` returns.
-- on_demand
local function apply_transitions(queue, at)
  local runs = read_runs(at)
  if #runs == 0 then
    return {}, {}, {}
  end
  local answer, freed = (all_plain_completions(runs) and complete_all or apply_all)(queue, runs)
  return answer, freed, any_refused(answer) and read_last_leases(queue, runs, answer) or {}
end
