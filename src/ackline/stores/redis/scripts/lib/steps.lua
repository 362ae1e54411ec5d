-- Apply steps that were decided elsewhere, each if its guard holds.
--
-- Steps come as runs that differ only in id and data, one after the other in ARGV:
--   step (packed), n, n ids, and if the step has data: n of them
-- A step is a map:
--   act, by, note           for the journal
--   code                    of an act that ends a lease
--   token, deadline         the lease must have them, if given; `unlapsed`: and be in time
--   seen                    the job must be just so, if given: {state, token, priority, payload, at}
--   lands                   for each state: false, or {to, how it stands there, seconds}
--   asked                   where it leads a job that was asked to stop, if elsewhere
--   attempts                as many from now on
--   data                    what the data is: 'result', 'ended', 'progress' or 'payload'
--   priority                the new one; `tells_priority`: the journal has it, new or not
--   calls_back              the journal has where the job calls back, if it does and this is its end
--   keys                    to be written with the payload, if it ends in the DLQ
--   target                  of a move: {base, registry, entry, settings} of the other queue, and
--   here                    the note of its journal
--   plain                   a completion that only needs the token; no id comes twice
--   repeats                 whether it may have been taken before: then a refusal is explained

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
  return string.sub(body, options, payload - 1), string.sub(body, payload)
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
    body = string.sub(body, 1, payload_at(body) - 1) .. data
  end
  if step.priority then
    body = string.sub(body, 1, 16) .. string.char(step.priority) .. string.sub(body, 18)
    job.priority = step.priority
  end
  redis.call('HSET', bodies, job.id, body)
end

-- The last entry is about the end of this job.
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

local function take_step(queue, job, step, data, landing)
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
        redis.call('HSET', queue.base .. ':result', job.id, data)
        set(job, RESULT)
      end
    else
      job.finished = 0
    end
  end
end

local function wake(queue, step, job)
  if step.act == 'request_cancel' then
    tell(queue, 'signals')
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

-- What the leases that are alike from the start on to their end say: {worker, kind, group}.
local function read_tail(tails, tail)
  local _, worker, kind, group = struct.unpack('>dHc0Hc0Hc0', tail)
  tails[tail] = {worker, kind, group}
  return tails[tail]
end

local function read_front(fronts, step, flags)
  local kept = bit.bor(bit.band(flags, bit.bnot(ASKED)), step.data and RESULT or 0)
  fronts[flags] = struct.pack(FRONT, COMPLETED, step.code, kept, now)
  return fronts[flags]
end

-- For those that were not leased so: settled before, or another's now.
-- gate
local function explain_refusals(queue, first, verdicts, unfit)
  local jobs = load_jobs(queue, unfit)
  for index, verdict in ipairs(verdicts) do
    local job = jobs[ARGV[first + index - 1]]
    if verdict == GONE and job and not job.over then
      verdicts[index] = REFUSED + job.state
    end
  end
end

-- Bytes of a result that is told with the news of it: a larger one is looked up.
local LARGEST_TOLD = 4096

-- How a job alone has ended, for those who wait for it: '1' and its result or '0' for none, behind
-- the length of its id and the id; nothing if it is to be looked up.
local function tell_end(queue, id, result)
  if not result or #result <= LARGEST_TOLD then
    queue.ended = struct.pack('>Hc0', #id, id) .. (result and '1' .. result or '0')
  end
end

-- Most batches complete leases and do nothing else: no job has to be taken apart for that.
-- gate
local function complete_all(queue, run)
  local sub, byte = string.sub, string.byte
  local step, first, last = run[1], run[2], run[3]
  local at = exact(now + step.lands[PROCESSING + 1][3])
  local token, count, noted = struct.pack('>I8', step.token), 0, 0
  local verdicts, left, unfit, fronts, tails = {}, {}, {}, {}, {}
  local leaving, entering, saving, results, entries = {}, {}, {}, {}, {}
  local same, worker, kind, group
  local function end_run()
    if noted > 0 then
      note_run(queue, step.act, PROCESSING, COMPLETED, step.token, worker, step.note, step.by,
        entries)
      hold(queue, worker, -noted / 3)
    end
  end
  for index, place in ipairs(get_given('HMGET', queue.base .. ':place', first, last)) do
    local id = ARGV[first + index - 1]
    if place and byte(place) == PROCESSING and sub(place, 25, 32) == token then
      local flags, tail, size = byte(place, 3), sub(place, 41), 2 * count
      if tail ~= same then
        end_run()
        same, entries, noted = tail, {}, 0
        worker, kind, group = unpack(tails[tail] or read_tail(tails, tail))
      end
      local member = sub(place, 14, 19) .. id
      count = count + 1
      leaving[count] = member
      entering[size + 1], entering[size + 2] = at, member
      saving[size + 1] = id
      saving[size + 2] = (fronts[flags] or read_front(fronts, step, flags)) .. sub(place, 12)
      if step.data then
        results[size + 1], results[size + 2] = id, ARGV[last + index]
      end
      if group ~= '' then
        left[group] = (left[group] or 0) + 1
      end
      entries[noted + 1], entries[noted + 2] = id, kind
      entries[noted + 3] = byte(place, 24) + 256 * byte(place, 23) + 65536 * byte(place, 22)
      noted = noted + 3
      verdicts[index] = COMPLETED
    else
      unfit[#unfit + 1] = id
      verdicts[index] = GONE
    end
  end
  end_run()
  call_many('ZREM', queue.base .. ':processing', leaving)
  call_many('ZADD', queue.base .. ':completed', entering)
  call_many('HSET', queue.base .. ':place', saving)
  call_many('HSET', queue.base .. ':result', results)
  shift(queue, PROCESSING, COMPLETED, count)
  if count == 1 then
    tell_end(queue, saving[1], results[2])
  end
  if #unfit > 0 then
    explain_refusals(queue, first, verdicts, unfit)
  end
  return verdicts, left
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
  take_step(queue, job, step, data, landing)
  wake(queue, step, job)
  mind_group(queue, left, job, source)
  if not job.changed then
    job.changed = true
    changed[#changed + 1] = job
  end
  if step.keys and job.state == FAILED then
    -- What was cleaned up since must not come back, so only now, not when it is sent again.
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
  local jobs, verdicts, changed, left = load_jobs(queue, ids), {}, {}, {}
  for _, run in ipairs(runs) do
    local step, first, last = run[1], run[2], run[3]
    for index = first, last do
      local data = step.data and ARGV[last + 1 + index - first]
      verdicts[#verdicts + 1] = apply_one(queue, jobs[ARGV[index]], step, data, changed, left)
    end
  end
  local staying = {}
  for _, job in ipairs(changed) do
    if not job.gone then
      staying[#staying + 1] = job
    end
  end
  save_jobs(queue, staying)
  return verdicts, left
end

-- Verdicts as they are answered: flat {verdict, how many in a row}.
local function in_runs(verdicts)
  local runs, size = {}, 0
  for _, verdict in ipairs(verdicts) do
    if size > 0 and runs[size - 1] == verdict then
      runs[size] = runs[size] + 1
    else
      runs[size + 1], runs[size + 2] = verdict, 1
      size = size + 2
    end
  end
  return runs
end

local function any_refused(answer)
  for index = 1, #answer, 2 do
    if answer[index] >= REFUSED then
      return true
    end
  end
  return false
end

-- How the last leases ended of jobs whose steps were refused: flat {id, place or '', result,
-- ended attempts}. Read here, not in a call of its own: that could fail after jobs were claimed.
-- gate
local function explain_ends(queue, runs, verdicts)
  local told, number = {}, 0
  for _, run in ipairs(runs) do
    for index = run[2], run[3] do
      number = number + 1
      if run[1].repeats and verdicts[number] >= REFUSED then
        local id, size = ARGV[index], #told
        local place = redis.call('HGET', queue.base .. ':place', id) or ''
        local flags = string.byte(place, 3) or 0
        told[size + 1], told[size + 2] = id, place
        told[size + 3] = bit.band(flags, RESULT) ~= 0
          and redis.call('HGET', queue.base .. ':result', id)
        told[size + 4] = bit.band(flags, HISTORY) ~= 0
            and redis.call('LRANGE', queue.base .. ':history:' .. id, 0, -1)
          or {}
      end
    end
  end
  return told
end

-- Returns the verdicts in runs, how many jobs left each group, and what explains refusals.
-- gate
local function apply_steps(queue, at)
  local runs = read_runs(at)
  if #runs == 0 then
    return {}, {}, {}
  end
  insist()
  local verdicts, left
  if #runs == 1 and runs[1][1].plain then
    verdicts, left = complete_all(queue, runs[1])
  else
    verdicts, left = apply_all(queue, runs)
  end
  local answer = in_runs(verdicts)
  return answer, left, any_refused(answer) and explain_ends(queue, runs, verdicts) or {}
end
