-- Promote due jobs, and lease the next jobs in line.

-- The most due jobs that one claim promotes, and the most lapsed ones that it reports.
local CLAIM_MAINTENANCE_LIMIT = 200

-- About how many bytes of bodies one claim returns, unless its request says when to stop: more would
-- make all other clients wait.
local MOST_BYTES = 8 * 1024 * 1024
local FIRST_CHECK_DELAY = 4

-- The most jobs of full groups that one claim holds back: the next claim goes on from there.
local MAX_JOBS = 5000

local function head_of(line)
  local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  return tonumber(first[2])
end

local function sooner(one, other)
  return one and other and math.min(one, other) or one or other
end

-- When the first scheduled or failing job is due.
local function next_due(queue)
  return sooner(head_of(queue.base .. ':scheduled'), head_of(queue.base .. ':failing'))
end

-- Promoting --------------------------------------------------------------------------------

local function due_in(queue, state, limit)
  local line = queue.base .. ':' .. LINES[state]
  return redis.call('ZRANGEBYSCORE', line, '-inf', exact(now), 'WITHSCORES', 'LIMIT', 0, limit)
end

local function earlier(one, other)
  return one.at < other.at or (one.at == other.at and one.number < other.number)
end

-- gate
local function promote_these(queue, ids, limit)
  local jobs = {}
  for _, job in pairs(load_jobs(queue, ids)) do
    at_of(queue, job)
    jobs[#jobs + 1] = job
  end
  table.sort(jobs, earlier)
  for index = #jobs, limit + 1, -1 do
    jobs[index] = nil
  end
  for _, job in ipairs(jobs) do
    note(queue, 'promote', job.state, QUEUED, 0, '', '', '', job.id, job.kind, job.attempts)
    shift(queue, job.state, QUEUED, 1)
    job.state, job.at = QUEUED, job.at - job.priority * queue.ageing
    job.rank = job.at
  end
  save_jobs(queue, jobs)
  tell(queue, 'ready')
  return #jobs
end

-- Queue the jobs that are due, in the order of their times; returns how many.
local function promote(queue, limit)
  local ids = {}
  for _, state in ipairs({SCHEDULED, FAILING}) do
    local due = due_in(queue, state, limit)
    for index = 1, #due, 2 do
      ids[#ids + 1] = id_of(due[index])
    end
  end
  return #ids > 0 and promote_these(queue, ids, limit) or 0
end

-- Handing out ------------------------------------------------------------------------------

-- Lines to claim from: {key, kind, found, at, taken}, each with the rank and member of its head.
-- They are read in pieces, and the taken jobs are removed from them at the end, all at once.

local LEAST_PIECE = 8

-- Look at the next job of a line; false if there is none.
local function advance(line, piece)
  if line.at > #line.found then
    if line.whole then
      return false
    end
    local last = line.taken + piece - 1
    line.found = redis.call('ZRANGE', line.key, line.taken, last, 'WITHSCORES')
    line.at, line.whole = 1, #line.found < 2 * piece
    if #line.found == 0 then
      return false
    end
  end
  line.member = line.found[line.at]
  if line.found[line.at + 1] ~= line.score then
    line.score = line.found[line.at + 1]
    line.rank = tonumber(line.score)
  end
  return true
end

local function before(one, other)
  if one.rank ~= other.rank then
    return one.rank < other.rank
  end
  return number_of(one.member) < number_of(other.member)
end

-- The lines are a heap: the one with the best head is the first.
local function sink(lines, index)
  while true do
    local best, left = index, 2 * index
    for child = left, left + 1 do
      if lines[child] and before(lines[child], lines[best]) then
        best = child
      end
    end
    if best == index then
      return
    end
    lines[index], lines[best] = lines[best], lines[index]
    index = best
  end
end

local function ready_lines(queue, kinds, limit)
  kinds = kinds or redis.call('SMEMBERS', queue.base .. ':kinds')
  local piece = math.min(limit, math.max(LEAST_PIECE, math.ceil(2 * limit / #kinds)))
  local lines, empty = {piece = piece, all = {}}, {}
  for _, kind in ipairs(kinds) do
    local line = {key = ready_line(queue, kind), kind = kind, found = {}, at = 1, taken = 0}
    if advance(line, piece) then
      lines[#lines + 1] = line
    else
      empty[#empty + 1] = kind
    end
  end
  call_many('SREM', queue.base .. ':kinds', empty)
  for index = #lines, 1, -1 do
    lines.all[index] = lines[index]
    sink(lines, index)
  end
  return lines
end

-- The same from a single line, in which nothing has to be compared.
local function take_from(lines, limit)
  local members, kinds, ranks, count = {}, {}, {}, 0
  local line = lines[1]
  while count < limit do
    if line.at > #line.found and not advance(line, lines.piece) then
      lines[1] = nil
      break
    end
    local found, kind, score, rank = line.found, line.kind, line.score, line.rank
    local last = math.min(#found, line.at + 2 * (limit - count) - 1)
    for index = line.at, last, 2 do
      if found[index + 1] ~= score then
        score = found[index + 1]
        rank = tonumber(score)
      end
      count = count + 1
      members[count], kinds[count], ranks[count] = found[index], kind, rank
    end
    line.taken, line.at = line.taken + (last - line.at + 1) / 2, last + 1
  end
  return members, kinds, ranks
end

-- The best jobs, up to a limit: their members, kinds and ranks.
local function take_best(lines, limit)
  if #lines == 1 then
    return take_from(lines, limit)
  end
  local members, kinds, ranks = {}, {}, {}
  for count = 1, limit do
    local line = lines[1]
    if not line then
      break
    end
    members[count], kinds[count], ranks[count] = line.member, line.kind, line.rank
    line.taken, line.at = line.taken + 1, line.at + 2
    if not advance(line, lines.piece) then
      lines[1] = lines[#lines]
      lines[#lines] = nil
    end
    if lines[2] then
      sink(lines, 1)
    end
  end
  return members, kinds, ranks
end

local function leave_lines(lines)
  for _, line in ipairs(lines.all) do
    if line.taken > 0 then
      redis.call('ZREMRANGEBYRANK', line.key, 0, line.taken - 1)
    end
  end
end

-- A token above every earlier one. It is the time, so that tokens that were lost with the server's
-- last moments (by a failover or a restore) are not given out again. While the clock is behind, a
-- random number drawn by the claimer, `leap`, prevents that. It is not always added: tokens would
-- run ahead of the clock for good, up to where a double cannot tell two numbers apart.
local function next_token(queue, leap)
  local token = math.floor(now * 1e6)
  if token <= queue.token then
    token = queue.token + leap
  end
  queue.token = token
  return token
end

-- Keep the last token, and whether waiting workers want to be woken for new jobs.
local function save_lease(queue, token, wanting)
  if token and wanting then
    redis.call('HSET', queue.base .. ':queue', 'token', whole(token), 'idle', '1')
  elseif token then
    redis.call('HSET', queue.base .. ':queue', 'token', whole(token))
  elseif wanting then
    redis.call('HSET', queue.base .. ':queue', 'idle', '1')
  end
end

local function has_room(queue, lease, group)
  local running = lease.running
  running[group] = running[group] or running_in(queue, group)
  if running[group] >= queue.group_limit and not lease.ignores_groups then
    return false
  end
  running[group] = running[group] + 1
  enter_group(queue, group)
  return true
end

local function new_lease(queue, request)
  return {
    worker = request.worker, usual = request.lease, of_kind = request.leases,
    token = next_token(queue, request.leap), running = {}, held = {}, known = {},
    ignores_groups = request.ignores_groups,
  }
end

-- A leased job's place without the rank and the number at its end.
local function leased_head(lease, head, flags, attempts)
  return struct.pack('>BBBdBI4I8d', PROCESSING, 0, flags, 0, head.priority, attempts, lease.token,
    now) .. head.names
end

-- The fields of bodies of one kind that are alike from their priority to their options.
local function read_head(lease, body, kind)
  local _, priority, seconds, _, group, rest = struct.unpack(BODY, body)
  if seconds == 0 then
    seconds = lease.of_kind[kind] or lease.usual
  end
  local head = {
    text = string.sub(body, 9, rest - 1), priority = priority, group = group, seconds = seconds,
    deadline = exact(now + seconds),
    names = struct.pack('>Hc0Hc0Hc0', #lease.worker, lease.worker, #kind, kind, #group, group),
  }
  head.first = leased_head(lease, head, 0, 1)
  return head
end

-- The place of a job that no worker has had before, up to its number.
local function start_cursor(head, rank)
  return head.first .. struct.pack('>d', rank)
end

-- The next place of a job that some worker has had before; returns its attempts and flags, too.
local function lease_again(queue, lease, head, id, place, rank)
  local had = string.byte(place, FLAGS_AT)
  local flags = bit.band(had, bit.bnot(PROGRESS))
  if flags ~= had then
    redis.call('HDEL', queue.base .. ':progress', id)
  end
  local attempts = struct.unpack('>I4', place, ATTEMPTS_AT) + 1
  return leased_head(lease, head, flags, attempts) .. struct.pack('>d', rank)
    .. string.sub(place, -8), attempts, flags
end

local function put_aside(queue, lease, id, body, place, rank)
  local job = place and read_place(id, place) or read_fresh(id, body)
  job.rank, job.at = rank, rank
  hold_back(queue, job, lease.known)
  table.insert(lease.held, job)
end

-- How many jobs to take next: as many as wanted, unless the first ones were large.
local function next_look(limit, count, bytes, most)
  if count == 0 then
    return math.min(limit, FIRST_CHECK_DELAY)
  end
  return math.min(limit - count, math.max(1, math.floor((most - bytes) / (bytes / count + 1))))
end

-- The jobs to look at next: those that a look before has left, or the best ones in the lines.
local function next_jobs(lines, left, limit)
  if left then
    return left.members, left.kinds, left.ranks
  end
  return take_best(lines, limit)
end

-- Leave the jobs behind the one with which these have that many bytes; nil if there are none.
local function leave_rest(queue, members, kinds, ranks, bytes)
  local left = nil
  for index, member in ipairs(members) do
    if left then
      local at = #left.members + 1
      left.members[at], left.kinds[at], left.ranks[at] = member, kinds[index], ranks[index]
      members[index] = nil
    else
      bytes = bytes - redis.call('HSTRLEN', queue.base .. ':job', id_of(member))
      if bytes <= 0 and members[index + 1] then
        left = {members = {}, kinds = {}, ranks = {}}
      end
    end
  end
  return left
end

local function put_back(lines, left)
  local of_kind = {}
  for _, line in ipairs(lines.all) do
    of_kind[line.kind] = line
  end
  for _, kind in ipairs(left.kinds) do
    of_kind[kind].taken = of_kind[kind].taken - 1
  end
end

-- request: worker, limit, lease, leap, kinds or nil, leases of kinds that differ, bytes or nil
-- lines: those to claim from, of which there is at least one
-- Returns the token, flat {id, body}, and flat {index, attempts, flags} of those that are not new.
-- gate
local function take(queue, request, lines)
  local sub, find = string.sub, string.find
  local jobs, again, leased, places = {}, {}, {}, {}
  local lease, count, repeats, bytes, left = nil, 0, 0, 0, nil
  local most = request.bytes or MOST_BYTES
  while
    count < request.limit
    and (bytes < most or count == 0)
    and (not lease or #lease.held < MAX_JOBS)
  do
    local size = next_look(request.limit, count, bytes, most)
    local members, kinds, ranks = next_jobs(lines, left, size)
    if #members == 0 then
      break
    end
    left = request.bytes and leave_rest(queue, members, kinds, ranks, most - bytes)
    lease = lease or new_lease(queue, request)
    local ids = {}
    for index = 1, #members do
      ids[index] = sub(members[index], 7)
    end
    local bodies = get_many('HMGET', queue.base .. ':job', ids)
    local known = get_many('HMGET', queue.base .. ':place', ids)
    local kind, head, first, same
    local noted_ids, noted_kinds, load_max_attempts, noted = {}, {}, {}, 0
    for index = 1, #ids do
      local id, body, place, rank = ids[index], bodies[index], known[index], ranks[index]
      if kinds[index] ~= kind or find(body, head.text, 9, true) ~= 9 then
        kind, same = kinds[index], nil
        head = read_head(lease, body, kind)
      end
      if head.group ~= '' and not has_room(queue, lease, head.group) then
        put_aside(queue, lease, id, body, place, rank)
      else
        local attempts, at = 1, 2 * count + 1
        if place then
          local flags
          places[at + 1], attempts, flags = lease_again(queue, lease, head, id, place, rank)
          again[repeats + 1], again[repeats + 2], again[repeats + 3] = count, attempts, flags
          repeats = repeats + 3
        else
          if rank ~= same then
            same, first = rank, start_cursor(head, rank)
          end
          places[at + 1] = first .. sub(body, -8)
        end
        places[at] = id
        leased[at], leased[at + 1] = head.deadline, members[index]
        jobs[at], jobs[at + 1] = id, body
        bytes, count, noted = bytes + #body, count + 1, noted + 1
        noted_ids[noted], noted_kinds[noted], load_max_attempts[noted] = id, kind, attempts
      end
    end
    note_run(queue, 'claim', QUEUED, PROCESSING, lease.token, lease.worker, '', '', noted_kinds,
      load_max_attempts, noted_ids)
  end
  if left then
    put_back(lines, left)
  end
  leave_lines(lines)
  call_many('ZADD', queue.base .. ':processing', leased)
  call_many('HSET', queue.base .. ':place', places)
  if lease and #lease.held > 0 then
    save_jobs(queue, lease.held)
  end
  shift(queue, QUEUED, PROCESSING, count)
  if count > 0 then
    hold(queue, request.worker, count)
  end
  if count < request.limit and (left or #lines > 0) then
    -- There are more jobs than one claim may look at: the worker must claim again at once.
    queue.idle = true
    tell(queue, 'ready')
  end
  return lease and lease.token, jobs, again
end
