-- The leased jobs that have lapsed, or those of the given ones that one worker holds.
--
-- ARGV[2]   how many of the lapsed at most
-- ARGV[3]   the worker, or nothing
-- ARGV[4…]  members of :processing to look at: all of them at once could be too many
-- Returns   flat {id, body, place, at, false, false, {}}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/read_jobs.lua

local queue = open_queue(KEYS[1])
if not queue then
  return {}
end
local limit, worker = tonumber(ARGV[2]), ARGV[3]
if not worker then
  return lapsed(queue, limit)
end

local ids = {}
for index = 4, #ARGV do
  ids[index - 3] = id_of(ARGV[index])
end
local held, deadlines, named = {}, {}, struct.pack('>Hc0', #worker, worker)
for index, place in ipairs(get_many('HMGET', queue.base .. ':place', ids)) do
  local member = ARGV[index + 3]
  local is_its = place and string.find(place, named, WORKER_AT, true) == WORKER_AT
  local deadline = is_its and redis.call('ZSCORE', queue.base .. ':processing', member)
  if deadline then
    held[#held + 1], deadlines[#deadlines + 1] = ids[index], deadline
  end
end
return look_up_leased(queue, held, deadlines)
