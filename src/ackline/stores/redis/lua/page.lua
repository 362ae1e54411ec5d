-- Some jobs of one state, in the order of their line.
--
-- ARGV[2]  the state; not that of leased jobs, which are listed by age
-- ARGV[3]  where the last page ended, or '': at
-- ARGV[4]  and the number of its last job
-- ARGV[5]  how many at most
-- ARGV[6]  'newest' to begin with the end of the line, or ''
-- ARGV[7]  after how many bytes of jobs to stop
-- Returns  {now, flat {id, body, place, at, result, progress, ended attempts}, 1 if it stopped
--          before the last of them, else 0}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/read_jobs.lua

local queue = open_queue(KEYS[1])
if not queue then
  return {exact(now), {}, 0}
end
local state, after, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
local after_number = tonumber(ARGV[4])
local newest_first = ARGV[6] == 'newest'
local range = newest_first and 'ZREVRANGE' or 'ZRANGE'

local function queued_lines()
  local lines = {}
  for _, kind in ipairs(redis.call('SMEMBERS', queue.base .. ':kinds')) do
    lines[#lines + 1] = ready_line(queue, kind)
  end
  for _, group in ipairs(redis.call('SMEMBERS', queue.base .. ':held')) do
    for _, kind in ipairs(redis.call('SMEMBERS', queue.base .. ':holding:' .. group)) do
      lines[#lines + 1] = held_line(queue, group, kind)
    end
  end
  return lines
end

local function comes_before(at, number, other_at, other_number)
  if newest_first then
    at, number, other_at, other_number = other_at, other_number, at, number
  end
  return at < other_at or (at == other_at and number < other_number)
end

local function comes_first(one, other)
  return comes_before(one[1], one[2], other[1], other[2])
end

-- The rank of the first job behind the end of the last page. By binary search, because many jobs
-- may have the same place in a line, and the last one seen may be gone.
local function start_of(line)
  if not after then
    return 0
  end
  local low, high = 0, redis.call('ZCARD', line)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local found = redis.call(range, line, middle, middle, 'WITHSCORES')
    if comes_before(after, after_number, tonumber(found[2]), number_of(found[1])) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- The lines with the best heads: of many lines, only these can have the first jobs.
-- gate
local function best_lines(lines)
  local heads = {}
  for _, line in ipairs(lines) do
    local first = start_of(line)
    local head = redis.call(range, line, first, first, 'WITHSCORES')
    if head[1] then
      heads[#heads + 1] = {tonumber(head[2]), number_of(head[1]), line}
    end
  end
  table.sort(heads, comes_first)
  local best = {}
  for index = 1, math.min(limit, #heads) do
    best[index] = heads[index][3]
  end
  return best
end

local lines = state == QUEUED and queued_lines() or {queue.base .. ':' .. LINES[state]}
if #lines > limit then
  lines = best_lines(lines)
end
local found = {}
for _, line in ipairs(lines) do
  local first = start_of(line)
  local members, ats = split(redis.call(range, line, first, first + limit - 1, 'WITHSCORES'))
  for index, member in ipairs(members) do
    found[#found + 1] = {tonumber(ats[index]), number_of(member), member, ats[index]}
  end
end
if #lines > 1 then
  table.sort(found, comes_first)
end
local members, ats = {}, {}
for index = 1, math.min(limit, #found) do
  members[index], ats[index] = found[index][3], found[index][4]
end
return {exact(now), look_up(queue, members, ats, tonumber(ARGV[7]))}
