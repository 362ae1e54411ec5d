-- Promote due jobs, and lease the next queued jobs.

-- About how many bytes of bodies one claim returns, unless its request has a limit of its own: more
-- would make all other clients wait.
local MAX_BYTES = 8 * 1024 * 1024
local FIRST_READ_SIZE = 4

-- The most jobs of full groups that one claim parks: the next claim continues from there.
local MAX_PARKED = 5000

local function first_at(list)
  local first = redis.call('ZRANGE', list, 0, 0, 'WITHSCORES')
  return tonumber(first[2])
end

-- The most due jobs that one claim promotes, and the most lapsed jobs that it reports. Read only
-- when there are any.
local function repair_limit(queue)
  return tonumber(redis.call('HGET', queue.base .. ':queue', 'repair_limit'))
end

local function min_time(one, other)
  return one and other and math.min(one, other) or one or other
end

-- When the next scheduled or failing job is due.
local function next_due(queue)
  return min_time(first_at(queue.base .. ':scheduled'), first_at(queue.base .. ':failing'))
end

-- Promoting --------------------------------------------------------------------------------

local function due_members(queue, state, limit)
  local list = queue.base .. ':' .. LISTS[state]
  local latest = format_float(now)
  return redis.call('ZRANGEBYSCORE', list, '-inf', latest, 'WITHSCORES', 'LIMIT', 0, limit)
end

local function is_earlier(one, other)
  return one.at < other.at or (one.at == other.at and one.number < other.number)
end

-- on_demand
local function promote_jobs(queue, ids, limit)
  local jobs = {}
  for _, job in pairs(load_jobs(queue, ids)) do
    at_of(queue, job)
    jobs[#jobs + 1] = job
  end
  table.sort(jobs, is_earlier)
  for index = #jobs, limit + 1, -1 do
    jobs[index] = nil
  end
  for _, job in ipairs(jobs) do
    add_entry(queue, 'promote', job.state, QUEUED, 0, '', '', '', job.id, job.kind, job.attempts)
    change_counts(queue, job.state, QUEUED, 1)
    job.state, job.at = QUEUED, job.at - job.priority * queue.ageing
    job.rank = job.at
  end
  save_jobs(queue, jobs)
  notify_topic(queue, 'ready')
  return #jobs
end

-- Queue the jobs that are due, in the order of their times; returns how many.
-- on_demand
local function promote(queue, limit)
  local ids = {}
  for _, state in ipairs({SCHEDULED, FAILING}) do
    local due = due_members(queue, state, limit)
    for index = 1, #due, 2 do
      ids[#ids + 1] = id_of(due[index])
    end
  end
  return #ids > 0 and promote_jobs(queue, ids, limit) or 0
end

-- Leasing ----------------------------------------------------------------------------------

-- Lists to claim from: {key, kind, found, at, taken}, each with the rank and the member of its next
-- job. Each is read a part at a time, and loses its leased jobs at the end, all at once.

local MIN_READ_SIZE = 8

-- Go to the next job of a list; false if there is none.
local function next_in_list(list, read_size)
  if list.at > #list.found then
    if list.read_whole then
      return false
    end
    local last = list.taken + read_size - 1
    list.found = redis.call('ZRANGE', list.key, list.taken, last, 'WITHSCORES')
    list.at, list.read_whole = 1, #list.found < 2 * read_size
    if #list.found == 0 then
      return false
    end
  end
  list.member = list.found[list.at]
  if list.found[list.at + 1] ~= list.score then
    list.score = list.found[list.at + 1]
    list.rank = tonumber(list.score)
  end
  return true
end

local function is_before(one, other)
  if one.rank ~= other.rank then
    return one.rank < other.rank
  end
  return number_of(one.member) < number_of(other.member)
end

-- The lists are a heap: the one with the best next job is the first.
local function sift_down(lists, index)
  while true do
    local best = index
    for child = 2 * index, 2 * index + 1 do
      if lists[child] and is_before(lists[child], lists[best]) then
        best = child
      end
    end
    if best == index then
      return
    end
    lists[index], lists[best] = lists[best], lists[index]
    index = best
  end
end

local function ready_lists(queue, kinds, limit)
  kinds = kinds or redis.call('SMEMBERS', queue.base .. ':kinds')
  local read_size = math.min(limit, math.max(MIN_READ_SIZE, math.ceil(2 * limit / #kinds)))
  local lists, empty = {read_size = read_size, all = {}}, {}
  for _, kind in ipairs(kinds) do
    local list = {key = ready_key(queue, kind), kind = kind, found = {}, at = 1, taken = 0}
    if next_in_list(list, read_size) then
      lists[#lists + 1] = list
    else
      empty[#empty + 1] = kind
    end
  end
  call_many('SREM', queue.base .. ':kinds', empty)
  for index = #lists, 1, -1 do
    lists.all[index] = lists[index]
    sift_down(lists, index)
  end
  return lists
end

-- The same as `pop_best` for a single list, where no jobs have to be compared.
local function pop_from(lists, limit)
  local members, kinds, ranks, count = {}, {}, {}, 0
  local list = lists[1]
  while count < limit do
    if list.at > #list.found and not next_in_list(list, lists.read_size) then
      lists[1] = nil
      break
    end
    local found, kind, score, rank = list.found, list.kind, list.score, list.rank
    local last = math.min(#found, list.at + 2 * (limit - count) - 1)
    for index = list.at, last, 2 do
      if found[index + 1] ~= score then
        score = found[index + 1]
        rank = tonumber(score)
      end
      count = count + 1
      members[count], kinds[count], ranks[count] = found[index], kind, rank
    end
    list.taken, list.at = list.taken + (last - list.at + 1) / 2, last + 1
  end
  return members, kinds, ranks
end

-- The best jobs, up to a limit: their members, kinds and ranks.
local function pop_best(lists, limit)
  if #lists == 1 then
    return pop_from(lists, limit)
  end
  local members, kinds, ranks = {}, {}, {}
  for count = 1, limit do
    local list = lists[1]
    if not list then
      break
    end
    members[count], kinds[count], ranks[count] = list.member, list.kind, list.rank
    list.taken, list.at = list.taken + 1, list.at + 2
    if not next_in_list(list, lists.read_size) then
      lists[1] = lists[#lists]
      lists[#lists] = nil
    end
    if lists[2] then
      sift_down(lists, 1)
    end
  end
  return members, kinds, ranks
end

local function remove_taken(lists)
  for _, list in ipairs(lists.all) do
    if list.taken > 0 then
      redis.call('ZREMRANGEBYRANK', list.key, 0, list.taken - 1)
    end
  end
end

-- A token above all earlier ones. It is the time, so that tokens that a failover or a restore has
-- lost are not issued again. While the clock is behind the last token, a random number drawn by the
-- client, `token_jump`, prevents that. It is not always added: tokens would run ahead of the clock
-- for good, up to where a double cannot tell two numbers apart.
local function next_token(queue, token_jump)
  local token = math.floor(now * 1e6)
  if token <= queue.token then
    token = queue.token + token_jump
  end
  queue.token = token
  return token
end

-- Save the last token, and whether waiting workers want to be woken for new jobs.
local function save_token(queue, token, wants_wakeup)
  if token and wants_wakeup then
    redis.call('HSET', queue.base .. ':queue', 'token', format_int(token), 'wake_requested', '1')
  elseif token then
    redis.call('HSET', queue.base .. ':queue', 'token', format_int(token))
  elseif wants_wakeup then
    redis.call('HSET', queue.base .. ':queue', 'wake_requested', '1')
  end
end

local function group_has_capacity(queue, lease, group)
  local running = lease.running
  running[group] = running[group] or leases_of_group(queue, group)
  if running[group] >= queue.group_limit and not lease.ignore_group_limit then
    return false
  end
  running[group] = running[group] + 1
  add_group_lease(queue, group)
  return true
end

local function new_lease(queue, request)
  return {
    worker = request.worker, default = request.lease, of_kind = request.lease_of_kind,
    token = next_token(queue, request.token_jump), running = {}, parked = {}, parked_lists = {},
    ignore_group_limit = request.ignore_group_limit,
  }
end

-- The state of a leased job without the rank and the number at its end.
local function leased_state(lease, head, flags, attempts)
  return struct.pack('>BBBdBI4I8d', PROCESSING, 0, flags, 0, head.priority, attempts, lease.token,
    now) .. head.names
end

-- What bodies have in common that are the same from their priority to their options.
local function read_body_head(lease, body, kind)
  local _, priority, seconds, _, group, rest = struct.unpack(BODY, body)
  if seconds == 0 then
    seconds = lease.of_kind[kind] or lease.default
  end
  local head = {
    text = string.sub(body, 9, rest - 1), priority = priority, group = group, seconds = seconds,
    deadline = format_float(now + seconds),
    names = struct.pack('>Hc0Hc0Hc0', #lease.worker, lease.worker, #kind, kind, #group, group),
  }
  head.first = leased_state(lease, head, 0, 1)
  return head
end

-- The state of a job that is leased for the first time, without the number at its end.
local function first_state(head, rank)
  return head.first .. struct.pack('>d', rank)
end

-- The state of a job that was leased before; also returns its attempts and flags.
local function redelivered_state(queue, lease, head, id, packed, rank)
  local old_flags = string.byte(packed, FLAGS_AT)
  local flags = bit.band(old_flags, bit.bnot(PROGRESS))
  if flags ~= old_flags then
    redis.call('HDEL', queue.base .. ':progress', id)
  end
  local attempts = struct.unpack('>I4', packed, ATTEMPTS_AT) + 1
  return leased_state(lease, head, flags, attempts) .. struct.pack('>d', rank)
    .. string.sub(packed, -8), attempts, flags
end

local function park_job(queue, lease, id, body, packed, rank)
  local job = packed and read_state(id, packed) or read_never_leased(id, body)
  job.rank, job.at = rank, rank
  park(queue, job, lease.parked_lists)
  table.insert(lease.parked, job)
end

-- How many jobs to read next: as many as wanted, unless the first ones were large.
local function next_read_size(limit, count, bytes, max_bytes)
  if count == 0 then
    return math.min(limit, FIRST_READ_SIZE)
  end
  return math.min(limit - count, math.max(1, math.floor((max_bytes - bytes) / (bytes / count + 1))))
end

-- The jobs to read next: the rest of those read before, or the best ones of the lists.
local function next_jobs(lists, rest, limit)
  if rest then
    return rest.members, rest.kinds, rest.ranks
  end
  return pop_best(lists, limit)
end

-- Remove the jobs that follow once the first ones have that many bytes, and return them, else nil.
local function keep_rest(queue, members, kinds, ranks, bytes)
  local rest = nil
  for index, member in ipairs(members) do
    if rest then
      local at = #rest.members + 1
      rest.members[at], rest.kinds[at], rest.ranks[at] = member, kinds[index], ranks[index]
      members[index] = nil
    else
      bytes = bytes - redis.call('HSTRLEN', queue.base .. ':job', id_of(member))
      if bytes <= 0 and members[index + 1] then
        rest = {members = {}, kinds = {}, ranks = {}}
      end
    end
  end
  return rest
end

local function push_back(lists, rest)
  local of_kind = {}
  for _, list in ipairs(lists.all) do
    of_kind[list.kind] = list
  end
  for _, kind in ipairs(rest.kinds) do
    of_kind[kind].taken = of_kind[kind].taken - 1
  end
end

-- request: worker, limit, lease, token_jump, kinds or nil, lease_of_kind where it differs,
--          max_bytes or nil
-- lists:   those to claim from, at least one
-- Returns the token, flat {id, body}, and flat {index, attempts, flags} of jobs leased before.
-- on_demand
local function lease_next(queue, request, lists)
  local sub, find = string.sub, string.find
  local jobs, redelivered, leased, new_states = {}, {}, {}, {}
  local lease, count, bytes, rest = nil, 0, 0, nil
  local max_bytes = request.max_bytes or MAX_BYTES
  while
    count < request.limit
    and (bytes < max_bytes or count == 0)
    and (not lease or #lease.parked < MAX_PARKED)
  do
    local size = next_read_size(request.limit, count, bytes, max_bytes)
    local members, kinds, ranks = next_jobs(lists, rest, size)
    if #members == 0 then
      break
    end
    rest = request.max_bytes and keep_rest(queue, members, kinds, ranks, max_bytes - bytes)
    lease = lease or new_lease(queue, request)
    local ids = {}
    for index = 1, #members do
      ids[index] = sub(members[index], 7)
    end
    local bodies = get_many('HMGET', queue.base .. ':job', ids)
    local old_states = get_many('HMGET', queue.base .. ':state', ids)
    local kind, head, first, same_rank
    local entry_ids, entry_kinds, entry_attempts, entries = {}, {}, {}, 0
    for index = 1, #ids do
      local id, body, packed, rank = ids[index], bodies[index], old_states[index], ranks[index]
      if kinds[index] ~= kind or find(body, head.text, 9, true) ~= 9 then
        kind, same_rank = kinds[index], nil
        head = read_body_head(lease, body, kind)
      end
      if head.group ~= '' and not group_has_capacity(queue, lease, head.group) then
        park_job(queue, lease, id, body, packed, rank)
      else
        local attempts, at = 1, 2 * count + 1
        if packed then
          local state, last, flags = nil, #redelivered, nil
          state, attempts, flags = redelivered_state(queue, lease, head, id, packed, rank)
          redelivered[last + 1], redelivered[last + 2], redelivered[last + 3] = count, attempts, flags
          new_states[at + 1] = state
        else
          if rank ~= same_rank then
            same_rank, first = rank, first_state(head, rank)
          end
          new_states[at + 1] = first .. sub(body, -8)
        end
        new_states[at] = id
        leased[at], leased[at + 1] = head.deadline, members[index]
        jobs[at], jobs[at + 1] = id, body
        bytes, count, entries = bytes + #body, count + 1, entries + 1
        entry_ids[entries], entry_kinds[entries], entry_attempts[entries] = id, kind, attempts
      end
    end
    add_entries(queue, 'claim', QUEUED, PROCESSING, lease.token, lease.worker, '', '', entry_kinds,
      entry_attempts, entry_ids)
  end
  if rest then
    push_back(lists, rest)
  end
  remove_taken(lists)
  call_many('ZADD', queue.base .. ':processing', leased)
  call_many('HSET', queue.base .. ':state', new_states)
  if lease and #lease.parked > 0 then
    save_jobs(queue, lease.parked)
  end
  change_counts(queue, QUEUED, PROCESSING, count)
  if count > 0 then
    change_lease_count(queue, request.worker, count)
  end
  if count < request.limit and (rest or #lists > 0) then
    -- There are more jobs than one claim may read: the worker must claim again immediately.
    queue.wake_requested = true
    notify_topic(queue, 'ready')
  end
  return lease and lease.token, jobs, redelivered
end
