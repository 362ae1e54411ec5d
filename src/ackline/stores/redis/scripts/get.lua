-- The jobs of these ids.
--
-- ARGV[2…]  ids
-- Returns   {now, flat {id, body, place, at, result, progress, ended attempts} of those there are}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/look.lua

local queue = open_queue(KEYS[1])
local members, ats = {}, {}
if queue then
  local ids = {}
  for index = 2, #ARGV do
    ids[#ids + 1] = ARGV[index]
  end
  local jobs = load_jobs(queue, ids)
  for _, id in ipairs(ids) do
    local job = jobs[id]
    if job then
      members[#members + 1], ats[#ats + 1] = job.member, exact(at_of(queue, job))
    end
  end
end
return {exact(now), queue and look_up(queue, members, ats, true) or {}}
