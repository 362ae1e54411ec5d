-- Replace the settings of a queue, if they are still the expected ones.
--
-- ARGV[2]   '' if anything may be replaced, else the settings that are expected, as they are kept
-- ARGV[3]   the act for the journal
-- ARGV[4]   who asked for it
-- ARGV[5…]  the new fields
-- Returns   1, or 0 if the settings are not the expected ones, or 2 if jobs that groups hold back
--           may have room now: unpark_groups.lua lets them into line, a few groups at a time
-- Errors    NOQUEUE if the queue must be made first
--
-- include lib/queue.lua

local before = open_queue(KEYS[1])
if not before then
  return redis.error_reply('NOQUEUE')
end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[1] .. ':queue', 'settings') ~= ARGV[2] then
  return 0
end
insist()
redis.call('HSET', KEYS[1] .. ':queue', unpack(ARGV, 5))
local queue = open_queue(KEYS[1])
note(queue, ARGV[3], NOWHERE, NOWHERE, 0, '', '', ARGV[4], '', '', 0)
tell(queue, 'ready')
close_queue(queue)
return queue.group_limit > before.group_limit and 2 or 1
