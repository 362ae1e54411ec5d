-- Delete jobs, whatever their state.
--
-- ARGV[2]   who asked for it
-- ARGV[3]   the digits of the states that may be deleted
-- ARGV[4…]  id and number: with another number, it is another job by now
-- Returns   how many
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua

local queue = open_queue(KEYS[1])
if not queue then
  return 0
end
insist()

local ids = {}
for index = 4, #ARGV, 2 do
  ids[#ids + 1] = ARGV[index]
end
local jobs, dropped, left = load_jobs(queue, ids), {}, {}
for index, id in ipairs(ids) do
  local job = jobs[id]
  if job and job.number == tonumber(ARGV[3 + 2 * index]) and ARGV[3]:find(job.state, 1, true) then
    note(queue, 'purge', job.state, NOWHERE, 0, '', '', ARGV[2], id, job.kind, job.attempts)
    dropped[#dropped + 1] = job
    if job.group ~= '' and job.state == PROCESSING then
      left[job.group] = (left[job.group] or 0) + 1
    elseif job.group ~= '' and job.state == QUEUED then
      left[job.group] = left[job.group] or 0
    end
  end
end
drop_jobs(queue, dropped)
free_groups(queue, left)
if #dropped > 0 then
  tell(queue, 'ready')
end
close_queue(queue)
return #dropped
