-- Jobs whose lease has lapsed, or those of the given jobs that one worker has leased.
--
-- ARGV[2]   the most lapsed jobs
-- ARGV[3]   the worker, or nothing
-- ARGV[4…]  members of :processing to check: all of them in one call could be too many
-- Returns   flat {id, body, state, at, false, false, {}}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/read_jobs.lua

local queue = load_queue(KEYS[1])
if not queue then
  return {}
end
local limit, worker = tonumber(ARGV[2]), ARGV[3]
if not worker then
  return lapsed_jobs(queue, limit)
end

local ids = {}
for index = 4, #ARGV do
  ids[index - 3] = id_of(ARGV[index])
end
local leased_ids, deadlines, packed_worker = {}, {}, struct.pack('>Hc0', #worker, worker)
for index, packed in ipairs(get_many('HMGET', queue.base .. ':state', ids)) do
  local member = ARGV[index + 3]
  local of_worker = packed and string.find(packed, packed_worker, WORKER_AT, true) == WORKER_AT
  local deadline = of_worker and redis.call('ZSCORE', queue.base .. ':processing', member)
  if deadline then
    leased_ids[#leased_ids + 1], deadlines[#deadlines + 1] = ids[index], deadline
  end
end
return read_leased_jobs(queue, leased_ids, deadlines)
