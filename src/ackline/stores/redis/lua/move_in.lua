-- The second half of a move: put a job that has left another queue in line here.
--
-- ARGV[2]  its id
-- ARGV[3]  what :away of the other queue holds of it
-- ARGV[4]  the name of this move: however often this is sent, it is answered the same
-- ARGV[5]  'here' or 'back', if the other queue could not take it
-- Returns  1 if it is here now, 0 if the id is taken
-- Errors   NOQUEUE if the queue must be made first
--
-- include lib/queue.lua
-- include lib/job.lua

local queue = open_queue(KEYS[1])
if not queue then
  return redis.error_reply('NOQUEUE')
end
insist()
local id, away = ARGV[2], cmsgpack.unpack(ARGV[3])
local arrived = queue.base .. ':arrived'
if redis.call('ZSCORE', arrived, ARGV[4] .. ' here') then
  return 1
elseif redis.call('ZSCORE', arrived, ARGV[4] .. ' refused') then
  return 0
end
local there = load_jobs(queue, {id})[id]
if there and not there.over then
  if ARGV[5] == 'here' then
    redis.call('ZADD', arrived, '+inf', ARGV[4] .. ' refused')
  end
  return 0
elseif there then
  drop_jobs(queue, {there})
end

redis.call('ZADD', arrived, '+inf', ARGV[4] .. ' here')
local job = read_place(id, away.place)
job.at = tonumber(away.at)
-- A new number of this queue: the end of a page could not tell two jobs of one number apart.
job.number = next_numbers(1)
job.member = member_of(job.number, id)
redis.call('HSET', queue.base .. ':job', id,
  string.sub(away.body, 1, -9) .. struct.pack('>I8', job.number))
if away.result then
  redis.call('HSET', queue.base .. ':result', id, away.result)
end
if away.progress then
  redis.call('HSET', queue.base .. ':progress', id, away.progress)
end
for _, ended in ipairs(away.history) do
  redis.call('RPUSH', queue.base .. ':history:' .. id, ended)
end
save_jobs(queue, {job})
shift(queue, nil, job.state, 1)
if job.token > queue.token then
  redis.call('HSET', queue.base .. ':queue', 'token', whole(job.token))
end
note_move(queue, job, NOWHERE, job.state, away.by, away.moved)
tell_priority(queue, job.priority, 1)
tell(queue, 'ready')
close_queue(queue)
return 1
