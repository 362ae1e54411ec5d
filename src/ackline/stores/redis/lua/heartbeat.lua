-- Note that a worker is alive, and extend its leases; a lapsed lease is not revived, and one that
-- was extended further keeps its deadline.
--
-- ARGV[2]   the worker's id
-- ARGV[3]   its sign of life (packed), or '' if it says goodbye
-- ARGV[4]   how long it counts as alive
-- ARGV[5…]  the leases: id, token, seconds
-- Returns   {numbers of those that are lost, numbers of those that were asked to stop}, from 0
-- Errors    NOQUEUE if the queue must be made first
--
-- include lib/queue.lua
-- include lib/job.lua

local queue = open_queue(KEYS[1])
if not queue then
  return redis.error_reply('NOQUEUE')
end
insist()

local workers = queue.base .. ':workers'
if ARGV[3] == '' then
  redis.call('HDEL', workers, ARGV[2])
else
  redis.call('HSET', workers, ARGV[2], struct.pack('>dd', now, now + tonumber(ARGV[4])) .. ARGV[3])
end

local ids = {}
for at = 5, #ARGV, 3 do
  ids[#ids + 1] = ARGV[at]
end
local lost, asked, extended = {}, {}, {}
local line = queue.base .. ':processing'
for index, place in ipairs(get_many('HMGET', queue.base .. ':place', ids)) do
  local job = place and read_place(ids[index], place)
  local token, seconds = tonumber(ARGV[3 * index + 3]), tonumber(ARGV[3 * index + 4])
  if job and job.state == PROCESSING and job.token == token and at_of(queue, job) > now then
    extended[#extended + 1] = exact(math.max(at_of(queue, job), now + seconds))
    extended[#extended + 1] = job.member
    if has(job, ASKED) then
      asked[#asked + 1] = index - 1
    end
  else
    lost[#lost + 1] = index - 1
  end
end
call_many('ZADD', line, extended)
return {lost, asked}
