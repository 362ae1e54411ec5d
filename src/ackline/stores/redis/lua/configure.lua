-- Replace the settings of a queue, if they are still the expected ones.
--
-- ARGV[2]   '' if anything may be replaced, else the expected settings, as they are stored
-- ARGV[3]   the act for the journal
-- ARGV[4]   who requested it
-- ARGV[5…]  the new fields
-- Returns   1, or 0 if the settings are not the expected ones, or 2 if the group limit was raised:
--           then unpark_groups.lua must be called for the parked groups, a few at a time
-- Errors    NOQUEUE if the queue must be created first
--
-- include lib/queue.lua

local before = load_queue(KEYS[1])
if not before then
  return redis.error_reply('NOQUEUE')
end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[1] .. ':queue', 'settings') ~= ARGV[2] then
  return 0
end
allow_when_full()
redis.call('HSET', KEYS[1] .. ':queue', unpack(ARGV, 5))
local queue = load_queue(KEYS[1])
add_entry(queue, ARGV[3], NO_STATE, NO_STATE, 0, '', '', ARGV[4], '', '', 0)
notify_topic(queue, 'ready')
close_queue(queue)
return queue.group_limit > before.group_limit and 2 or 1
