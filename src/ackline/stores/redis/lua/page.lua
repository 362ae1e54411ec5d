-- Some jobs of one state, in the order of their list.
--
-- ARGV[2]  the state; not processing, whose jobs are listed by age
-- ARGV[3]  the `at` of the last job of the page before, or ''
-- ARGV[4]  the number of that job
-- ARGV[5]  the most jobs
-- ARGV[6]  'newest' to start at the end of the list, or ''
-- ARGV[7]  the most bytes of jobs: it stops once it has them
-- Returns  {now, flat {id, body, state, at, result, progress, history}, 1 if it stopped before the
--          last of them, else 0}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/read_jobs.lua

local queue = load_queue(KEYS[1])
if not queue then
  return {format_float(now), {}, 0}
end
local state, after, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
local after_number = tonumber(ARGV[4])
local newest_first = ARGV[6] == 'newest'
local range = newest_first and 'ZREVRANGE' or 'ZRANGE'

local function queued_lists()
  local lists = {}
  for _, kind in ipairs(redis.call('SMEMBERS', queue.base .. ':kinds')) do
    lists[#lists + 1] = ready_key(queue, kind)
  end
  for _, group in ipairs(redis.call('SMEMBERS', queue.base .. ':parked')) do
    for _, kind in ipairs(redis.call('SMEMBERS', queue.base .. ':parked_kinds:' .. group)) do
      lists[#lists + 1] = parked_key(queue, group, kind)
    end
  end
  return lists
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

-- The index of the first job after the last page. By binary search, because many jobs may have the
-- same `at`, and the last job of that page may no longer exist.
local function start_index(list)
  if not after then
    return 0
  end
  local low, high = 0, redis.call('ZCARD', list)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local found = redis.call(range, list, middle, middle, 'WITHSCORES')
    if comes_before(after, after_number, tonumber(found[2]), number_of(found[1])) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- The lists with the best first jobs: of many lists, only these can have jobs of the page.
-- on_demand
local function best_lists(lists)
  local heads = {}
  for _, list in ipairs(lists) do
    local first = start_index(list)
    local head = redis.call(range, list, first, first, 'WITHSCORES')
    if head[1] then
      heads[#heads + 1] = {tonumber(head[2]), number_of(head[1]), list}
    end
  end
  table.sort(heads, comes_first)
  local best = {}
  for index = 1, math.min(limit, #heads) do
    best[index] = heads[index][3]
  end
  return best
end

local lists = state == QUEUED and queued_lists() or {queue.base .. ':' .. LISTS[state]}
if #lists > limit then
  lists = best_lists(lists)
end
local found = {}
for _, list in ipairs(lists) do
  local first = start_index(list)
  local last = first + limit - 1
  local members, scores = split_pairs(redis.call(range, list, first, last, 'WITHSCORES'))
  for index, member in ipairs(members) do
    found[#found + 1] = {tonumber(scores[index]), number_of(member), member, scores[index]}
  end
end
if #lists > 1 then
  table.sort(found, comes_first)
end
local members, scores = {}, {}
for index = 1, math.min(limit, #found) do
  members[index], scores[index] = found[index][3], found[index][4]
end
return {format_float(now), read_jobs(queue, members, scores, tonumber(ARGV[7]))}
