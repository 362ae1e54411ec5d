-- Record that a worker is alive, and extend leases. A lapsed lease is not revived, and one that
-- was extended further keeps its deadline.
--
-- ARGV[2]   the worker's id, or '' to only extend leases
-- ARGV[3]   its heartbeat (packed), or '' if it has stopped
-- ARGV[4]   seconds for which it counts as alive
-- ARGV[5…]  the leases: id, token, seconds
-- Returns   {indexes of lost leases, indexes of leases with a cancel request}, from 0
-- Errors    NOQUEUE if the queue must be created first
--
-- include lib/queue.lua
-- include lib/job.lua

local queue = load_queue(KEYS[1])
if not queue then
  return redis.error_reply('NOQUEUE')
end
allow_when_full()

local workers = queue.base .. ':workers'
if ARGV[3] == '' and ARGV[2] ~= '' then
  redis.call('HDEL', workers, ARGV[2])
elseif ARGV[2] ~= '' then
  redis.call('HSET', workers, ARGV[2], struct.pack('>dd', now, now + tonumber(ARGV[4])) .. ARGV[3])
end

local ids = {}
for at = 5, #ARGV, 3 do
  ids[#ids + 1] = ARGV[at]
end
local lost, cancel_requested, extended = {}, {}, {}
local list = queue.base .. ':processing'
for index, packed in ipairs(get_many('HMGET', queue.base .. ':state', ids)) do
  local job = packed and read_state(ids[index], packed)
  local token, seconds = tonumber(ARGV[3 * index + 3]), tonumber(ARGV[3 * index + 4])
  if job and job.state == PROCESSING and job.token == token and at_of(queue, job) > now then
    extended[#extended + 1] = format_float(math.max(at_of(queue, job), now + seconds))
    extended[#extended + 1] = job.member
    if has_flag(job, CANCEL_REQUESTED) then
      cancel_requested[#cancel_requested + 1] = index - 1
    end
  else
    lost[#lost + 1] = index - 1
  end
end
call_many('ZADD', list, extended)
return {lost, cancel_requested}
