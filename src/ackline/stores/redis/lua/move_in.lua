-- The second half of a move between slots: insert a job that has left another queue.
--
-- ARGV[2]  its id
-- ARGV[3]  its entry in :moving of the other queue
-- ARGV[4]  the id of this move: however often it is sent, the answer is the same
-- ARGV[5]  'forward', or 'back' if the other queue has refused it and this is where it came from
-- Returns  1 if it is in this queue now, 0 if the id is taken
-- Errors   NOQUEUE if the queue must be created first
--
-- include lib/queue.lua
-- include lib/job.lua

local queue = load_queue(KEYS[1])
if not queue then
  return redis.error_reply('NOQUEUE')
end
allow_when_full()
local id, moving = ARGV[2], cmsgpack.unpack(ARGV[3])
local moves = queue.base .. ':moves'
if redis.call('ZSCORE', moves, ARGV[4] .. ' accepted') then
  return 1
elseif redis.call('ZSCORE', moves, ARGV[4] .. ' refused') then
  return 0
end
local existing = load_jobs(queue, {id})[id]
if existing and not existing.past_retention then
  if ARGV[5] == 'forward' then
    redis.call('ZADD', moves, '+inf', ARGV[4] .. ' refused')
  end
  return 0
elseif existing then
  delete_jobs(queue, {existing})
end

redis.call('ZADD', moves, '+inf', ARGV[4] .. ' accepted')
local job = read_state(id, moving.state)
job.at = tonumber(moving.at)
-- A new number of this queue: a page cursor could not tell two jobs with one number apart.
job.number = next_numbers(1)
job.member = member_of(job.number, id)
redis.call('HSET', queue.base .. ':job', id,
  string.sub(moving.body, 1, -9) .. struct.pack('>I8', job.number))
if moving.result then
  redis.call('HSET', queue.base .. ':result', id, moving.result)
end
if moving.progress then
  redis.call('HSET', queue.base .. ':progress', id, moving.progress)
end
for _, attempt in ipairs(moving.history) do
  redis.call('RPUSH', queue.base .. ':history:' .. id, attempt)
end
save_jobs(queue, {job})
change_counts(queue, nil, job.state, 1)
if job.token > queue.token then
  redis.call('HSET', queue.base .. ':queue', 'token', format_int(job.token))
end
add_move_entry(queue, job, NO_STATE, job.state, moving.by, moving.moved)
add_priorities(queue, job.priority, 1)
notify_topic(queue, 'ready')
close_queue(queue)
return 1
