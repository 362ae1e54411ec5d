-- Delete jobs, whatever their state.
--
-- ARGV[2]   who requested it
-- ARGV[3]   the digits of the states that may be deleted
-- ARGV[4…]  id and number: with another number, it is another job by now
-- Returns   how many it deleted
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua

local queue = load_queue(KEYS[1])
if not queue then
  return 0
end
allow_when_full()

local ids = {}
for index = 4, #ARGV, 2 do
  ids[#ids + 1] = ARGV[index]
end
local jobs, deleted, freed = load_jobs(queue, ids), {}, {}
for index, id in ipairs(ids) do
  local job = jobs[id]
  if job and job.number == tonumber(ARGV[3 + 2 * index]) and ARGV[3]:find(job.state, 1, true) then
    add_entry(queue, 'purge', job.state, NO_STATE, 0, '', '', ARGV[2], id, job.kind, job.attempts)
    deleted[#deleted + 1] = job
    if job.group ~= '' and job.state == PROCESSING then
      freed[job.group] = (freed[job.group] or 0) + 1
    elseif job.group ~= '' and job.state == QUEUED then
      freed[job.group] = freed[job.group] or 0
    end
  end
end
delete_jobs(queue, deleted)
free_groups(queue, freed)
if #deleted > 0 then
  notify_topic(queue, 'ready')
end
close_queue(queue)
return #deleted
