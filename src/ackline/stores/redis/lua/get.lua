-- The jobs of these ids.
--
-- ARGV[2]   the most bytes of jobs, or '': it stops once it has them
-- ARGV[3…]  ids
-- Returns   {now, flat {id, body, state, at, result, progress, history} of those that exist, 1 if
--           it stopped before the last of them, else 0}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/read_jobs.lua

local queue = load_queue(KEYS[1])
local members, scores = {}, {}
if queue then
  local ids = {}
  for index = 3, #ARGV do
    ids[#ids + 1] = ARGV[index]
  end
  local jobs = load_jobs(queue, ids)
  for _, id in ipairs(ids) do
    local job = jobs[id]
    if job then
      members[#members + 1], scores[#scores + 1] = job.member, format_float(at_of(queue, job))
    end
  end
end
local found, more = {}, 0
if queue then
  found, more = read_jobs(queue, members, scores, tonumber(ARGV[2]) or math.huge)
end
return {format_float(now), found, more}
