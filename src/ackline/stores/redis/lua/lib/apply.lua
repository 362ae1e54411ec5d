-- Apply steps that were decided elsewhere, each if its guard holds.
--
-- Steps come as runs that differ only in id and data, one after the other in ARGV:
--   step (packed), n, n ids, and if the step has data: n of them
-- A step is a map:
--   act, by, note           for the journal
--   code                    of an act that ends a lease
--   token, deadline         the lease must have them, if given; `unlapsed`: it must not have lapsed
--   seen                    the job must be like this, if given: {state, token, priority, payload,
--                           at}
--   lands                   for each state: false, or {to, how it stands there, seconds}
--   asked                   where it leads a job that was asked to stop, if that differs
--   attempts                the job's new number of attempts
--   data                    what the data is: 'result', 'ended', 'progress' or 'payload'
--   priority                the new one; `tells_priority`: the journal has it, new or not
--   calls_back              the journal gets the job's callback URL, if it has one and ends here
--   keys                    to be written with the payload, if it ends in the DLQ
--   target                  of a move: {base, registry, entry, settings} of the other queue, and
--   moved                   the names of this queue and the other
--   plain                   a completion that only needs the token; no id of the run comes twice
--   repeats                 whether it may have been taken before: then a refusal is ends

-- How many ended attempts are remembered for one job.
local HISTORY_LIMIT = 100

local function place_at(queue, job, landing, old_priority)
  local how, seconds = landing[2], landing[3]
  if how == 'after' then
    return now + seconds
  elseif how == 'fresh' then
    return now - job.priority * queue.ageing
  elseif how == 'back' then
    return job.rank
  elseif landing[1] == QUEUED then
    return job.rank + (old_priority - job.priority) * queue.ageing
  end
  return at_of(queue, job)
end

-- The options (packed) and the payload of a job.
local function written_of(queue, id)
  local body = redis.call('HGET', queue.base .. ':job', id)
  local payload, options = payload_at(body)
  return string.sub(body, options, payload - 1), string.sub(body, payload, -9)
end

local function is_as_seen(queue, job, seen)
  local _, payload = written_of(queue, job.id)
  return job.state == seen.state
    and job.token == seen.token
    and job.priority == seen.priority
    and payload == seen.payload
    and (not seen.at or at_of(queue, job) == seen.at)
end

-- The landing of a step that may be taken, else nil.
local function guard(queue, job, step)
  local landing = step.lands[job.state + 1]
  if not landing then
    return nil
  end
  if step.token and step.token ~= job.token then
    return nil
  end
  if step.deadline and step.deadline ~= at_of(queue, job) then
    return nil
  end
  if step.unlapsed and at_of(queue, job) <= now then
    return nil
  end
  if step.seen and not is_as_seen(queue, job, step.seen) then
    return nil
  end
  return step.asked and has(job, ASKED) and step.asked or landing
end

local function remember(queue, job, ended)
  local history = queue.base .. ':history:' .. job.id
  local head = struct.pack('>I4ddHc0', job.attempts, now, job.started, #job.worker, job.worker)
  if redis.call('RPUSH', history, head .. ended) > HISTORY_LIMIT then
    redis.call('LPOP', history)
  end
  set(job, HISTORY)
end

local function rewrite_body(queue, job, step, data)
  local bodies = queue.base .. ':job'
  local body = redis.call('HGET', bodies, job.id)
  if step.data == 'payload' then
    body = string.sub(body, 1, payload_at(body) - 1) .. data .. string.sub(body, -8)
  end
  if step.priority then
    body = string.sub(body, 1, 8) .. string.char(step.priority) .. string.sub(body, 10)
    job.priority = step.priority
  end
  redis.call('HSET', bodies, job.id, body)
end

-- Add the callback URL of this job to the last entry, which is about its end.
local function tell_callback(queue, id)
  local options = written_of(queue, id)
  local url = options ~= '' and cmsgpack.unpack(options).callback_url
  if url then
    queue.callbacks = queue.callbacks or {}
    table.insert(queue.callbacks, queue.events)
    table.insert(queue.callbacks, url)
  end
end

local function end_lease(queue, job, step, data)
  if step.data == 'ended' then
    remember(queue, job, data)
  end
  hold(queue, job.worker, -1)
  job.act = step.code
  clear(job, ASKED)
end

local function keep_result(queue, job, result)
  set(job, result_flag(result))
  if has(job, SHORT_RESULT) then
    job.result = result
  else
    redis.call('HSET', queue.base .. ':result', job.id, result)
  end
end

local function apply_to_job(queue, job, step, data, landing)
  local source, to, old_priority = job.state, landing[1], job.priority
  note(queue, step.act, source, to, job.token, job.worker, step.note, step.by, job.id, job.kind,
    job.attempts)
  if step.data == 'progress' then
    redis.call('HSET', queue.base .. ':progress', job.id, data)
    set(job, PROGRESS)
  elseif step.act == 'request_cancel' then
    set(job, ASKED)
  end
  if source == PROCESSING and to ~= PROCESSING then
    end_lease(queue, job, step, data)
  end
  job.attempts = step.attempts or job.attempts
  if step.priority or step.data == 'payload' then
    rewrite_body(queue, job, step, data)
  end
  if step.tells_priority then
    tell_priority(queue, job.priority, 1)
  end
  if step.calls_back and to >= COMPLETED then
    tell_callback(queue, job.id)
  end
  job.at = place_at(queue, job, landing, old_priority)
  job.state = to
  if to == QUEUED then
    job.rank = job.at
  end
  if source ~= to then
    clear(job, HELD)
    shift(queue, source, to, 1)
    if to >= COMPLETED then
      job.finished = now
      if step.data == 'result' then
        keep_result(queue, job, data)
      end
    else
      job.finished = 0
    end
  end
end

local function wake(queue, step, job)
  if step.act == 'request_cancel' then
    tell(queue, 'cancel_requests')
  elseif job.state == QUEUED or job.state == SCHEDULED or job.state == FAILING then
    tell(queue, 'ready')
  end
end

-- Runs of steps as ARGV has them, from `at` on: {step, its first id, its last one}.
local function read_runs(at)
  local runs = {}
  while ARGV[at] do
    local step, first = cmsgpack.unpack(ARGV[at]), at + 2
    local last = at + 1 + tonumber(ARGV[at + 1])
    runs[#runs + 1] = {step, first, last}
    at = last + 1 + (step.data and last - first + 1 or 0)
  end
  return runs
end

-- gate
local function count_steps(at)
  local count = 0
  for _, run in ipairs(read_runs(at)) do
    count = count + run[3] - run[2] + 1
  end
  return count
end

-- The fields of places that differ only in their front, rank and number; `fits` if of this lease.
local function read_middle(middle, token)
  local _, attempts, found, _, worker, kind, group = struct.unpack(MIDDLE, middle)
  return {fits = found == token, worker = worker, kind = kind, group = group, attempts = attempts,
    text = middle, heads = {}}
end

-- A completed job's place up to the result; `added` is the result's flag.
local function completed_head(shared, step, flags, added)
  local kept = bit.bor(bit.band(flags, bit.bnot(ASKED)), added)
  local head = struct.pack(FRONT, COMPLETED, step.code, kept, now) .. shared.text
  shared.heads[flags + 256 * added] = head
  return head
end

-- Add a verdict, `count` times, to the answer, which is flat {verdict, how many in a row}.
local function answer_with(answer, verdict, count)
  local size = #answer
  if answer[size - 1] == verdict then
    answer[size] = answer[size] + count
  else
    answer[size + 1], answer[size + 2] = verdict, count
  end
end

-- Answer for a run with some jobs that did not have this lease: they were settled before, or
-- another worker has them now. `fits` has the numbers of the jobs that had it.
-- gate
local function answer_singly(queue, answer, first, last, fits)
  local unfit = {}
  for index = first, last do
    if not fits[index - first + 1] then
      unfit[#unfit + 1] = ARGV[index]
    end
  end
  local jobs = load_jobs(queue, unfit)
  for index = first, last do
    local job = jobs[ARGV[index]]
    local refused = job and not job.over and REFUSED + job.state or GONE
    answer_with(answer, fits[index - first + 1] and COMPLETED or refused, 1)
  end
end

-- The most bytes of a result that is sent with the news of it: a larger one is looked up.
local LARGEST_TOLD = 4096

-- How the only job of a step has ended, for the listeners: the length of its id, the id, then '1'
-- and its result, or '0' for none; nothing if the result has to be looked up.
local function tell_end(queue, id, result)
  if not result or #result <= LARGEST_TOLD then
    queue.ended = struct.pack('>Hc0', #id, id) .. (result and '1' .. result or '0')
  end
end

-- Complete leases of one claim: they have one token, so one worker has had them all. No job has to
-- be unpacked for that. Returns how many, and the id and the result of the last one.
local function complete_run(queue, step, first, last, answer, left)
  local sub, byte, find = string.sub, string.byte, string.find
  local at = exact(now + step.lands[PROCESSING + 1][3])
  local fits, shared, all_shared = {}, nil, {}
  local leaving, entering, saving, results = {}, {}, {}, {}
  local ids, kinds, attempts, count, worker, result = {}, {}, {}, 0, nil, nil
  local places = get_given('HMGET', queue.base .. ':place', first, last)
  for index = 1, last - first + 1 do
    local id, place = ARGV[first + index - 1], places[index]
    local leased = place and byte(place) == PROCESSING
    if leased and not (shared and find(place, shared.text, MIDDLE_AT, true) == MIDDLE_AT) then
      local middle = sub(place, MIDDLE_AT, -PLACE_END_SIZE - 1)
      shared = all_shared[middle] or read_middle(middle, step.token)
      all_shared[middle] = shared
    end
    if leased and shared.fits then
      local flags, size, member = byte(place, FLAGS_AT), 2 * count, sub(place, -MEMBER_NUMBER) .. id
      local short, added = '', 0
      if step.data then
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
      saving[size + 2] = (shared.heads[flags + 256 * added]
        or completed_head(shared, step, flags, added)) .. short .. sub(place, -PLACE_END_SIZE)
      if shared.group ~= '' then
        left[shared.group] = (left[shared.group] or 0) + 1
      end
      count, worker = count + 1, shared.worker
      leaving[count], fits[index] = member, true
      ids[count], kinds[count], attempts[count] = id, shared.kind, shared.attempts
    end
  end
  if count > 0 then
    note_run(queue, step.act, PROCESSING, COMPLETED, step.token, worker, step.note, step.by, kinds,
      attempts, ids)
    hold(queue, worker, -count)
  end
  call_many('ZREM', queue.base .. ':processing', leaving)
  call_many('ZADD', queue.base .. ':completed', entering)
  call_many('HSET', queue.base .. ':place', saving)
  call_many('HSET', queue.base .. ':result', results)
  shift(queue, PROCESSING, COMPLETED, count)
  if count == last - first + 1 then
    answer_with(answer, COMPLETED, count)
  else
    answer_singly(queue, answer, first, last, fits)
  end
  return count, ids[count], result
end

-- Most batches complete leases and do nothing else.
-- gate
local function complete_all(queue, runs)
  local answer, left, total, id, result = {}, {}, 0, nil, nil
  for _, run in ipairs(runs) do
    local count, last_id, last_result = complete_run(queue, run[1], run[2], run[3], answer, left)
    if count > 0 then
      total, id, result = total + count, last_id, last_result
    end
  end
  if total == 1 then
    tell_end(queue, id, result)
  end
  return answer, left
end

local function apply_one(queue, job, step, data, changed, left)
  if not job or job.gone or over(queue, job) then
    return GONE
  end
  local landing = guard(queue, job, step)
  if not landing then
    return REFUSED + job.state
  end
  if step.target then
    return move_job(queue, job, step, left)
  end
  local source = job.state
  apply_to_job(queue, job, step, data, landing)
  wake(queue, step, job)
  mind_group(queue, left, job, source)
  if not job.changed then
    job.changed = true
    changed[#changed + 1] = job
  end
  if step.keys and job.state == FAILED then
    -- Only now, not if the step is sent again: keys that were cleaned up since must not come back.
    local _, payload = written_of(queue, job.id)
    for _, name in ipairs(step.keys) do
      put_key(KEYS[3], name, payload)
    end
  end
  return job.state
end

-- gate
local function apply_all(queue, runs)
  local ids = {}
  for _, run in ipairs(runs) do
    for index = run[2], run[3] do
      ids[#ids + 1] = ARGV[index]
    end
  end
  local jobs, answer, changed, left = load_jobs(queue, ids), {}, {}, {}
  for _, run in ipairs(runs) do
    local step, first, last = run[1], run[2], run[3]
    for index = first, last do
      local data = step.data and ARGV[last + 1 + index - first]
      answer_with(answer, apply_one(queue, jobs[ARGV[index]], step, data, changed, left), 1)
    end
  end
  local staying = {}
  for _, job in ipairs(changed) do
    if not job.gone then
      staying[#staying + 1] = job
    end
  end
  save_jobs(queue, staying)
  return answer, left
end

local function all_plain(runs)
  for _, run in ipairs(runs) do
    if not run[1].plain then
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

-- How the last leases ended of jobs whose steps were refused: flat {id, place or '', result,
-- ended attempts}. Read here, not in a call of its own: that could fail after jobs were claimed.
-- gate
local function explain_ends(queue, runs, answer)
  local ends, number, verdicts = {}, 0, expand_runs(answer)
  for _, run in ipairs(runs) do
    for index = run[2], run[3] do
      number = number + 1
      if run[1].repeats and verdicts[number] >= REFUSED then
        local id, size = ARGV[index], #ends
        local place = redis.call('HGET', queue.base .. ':place', id)
        local job = place and read_place(id, place) or {flags = 0}
        ends[size + 1], ends[size + 2], ends[size + 3] = id, place or '', result_of(queue, job)
        ends[size + 4] = has(job, HISTORY)
            and redis.call('LRANGE', queue.base .. ':history:' .. id, 0, -1)
          or {}
      end
    end
  end
  return ends
end

-- Returns the verdicts in runs, how many jobs left each group, and what `explain_ends` returns.
-- gate
local function apply_steps(queue, at)
  local runs = read_runs(at)
  if #runs == 0 then
    return {}, {}, {}
  end
  local answer, left = (all_plain(runs) and complete_all or apply_all)(queue, runs)
  return answer, left, any_refused(answer) and explain_ends(queue, runs, answer) or {}
end
