"""Faults made by hand, each one that a real queue has had or could have."""

from __future__ import annotations

from tests.mutants.handing import HANDING
from tests.mutants.mutant import LIFECYCLE, Mutant
from tests.mutants.postgres import POSTGRES, POSTGRES_ALONE
from tests.mutants.spark import SPARK

_APPLY = "stores/memory/apply.py"
_JOBS = "stores/memory/jobs.py"
_LINES = "stores/memory/lines.py"
_OPERATING = "stores/memory/operating.py"
_LOOKING = "stores/memory/looking.py"
_ROOM = "stores/memory/room.py"

RULES = [
    Mutant(
        "the fence is not checked",
        LIFECYCLE,
        "        if transition.token != token:\n            return False\n",
        "",
    ),
    Mutant(
        "an act without a token passes the fence",
        LIFECYCLE,
        "    elif transition.act in FENCED:\n        return False\n",
        "",
    ),
    Mutant(
        "an act carries any change",
        LIFECYCLE,
        "        if foreign(self) != unchanged:",
        "        if foreign(self) is None:",
    ),
    Mutant(
        "a sweep does not look at the deadline it saw",
        LIFECYCLE,
        "if transition.deadline is not None and transition.deadline != deadline:",
        "if transition.deadline is not None and deadline is None:",
    ),
    Mutant(
        "extend revives a lapsed lease",
        LIFECYCLE,
        "deadline is not None and deadline <= now:",
        "deadline is not None and deadline <= 0:",
    ),
    Mutant(
        "the lease of a job is ignored",
        "stores/base.py",
        "return options.lease or self.lease_of_kind",
        "return self.lease_of_kind",
    ),
    Mutant(
        "a new queue does not wait for who reads every queue",
        "queue/reader.py",
        "return own + [reader for reader in of_every_queue if reader.name not in known]",
        "return own",
    ),
    Mutant(
        "a crash costs no attempt",
        LIFECYCLE,
        "        deadline=job.deadline,\n        keep=keep,",
        "        deadline=job.deadline,\n        attempts=job.attempts - 1,\n        keep=keep,",
    ),
    Mutant(
        "a poison job is never dead-lettered",
        LIFECYCLE,
        "    elif job.attempts >= policy.max_attempts:\n        to, keep, keys",
        "    elif job.attempts > 10**9:\n        to, keep, keys",
    ),
    Mutant(
        "one attempt too many",
        LIFECYCLE,
        "    if job.attempts >= policy.max_attempts:\n        return bury",
        "    if job.attempts > policy.max_attempts:\n        return bury",
    ),
    Mutant(
        "redrive keeps the attempts",
        LIFECYCLE,
        "delay=delay, attempts=0, edit",
        "delay=delay, edit",
    ),
    Mutant(
        "a running job can be cancelled without its token",
        LIFECYCLE,
        "elif state is State.PROCESSING and transition.act is Act.CANCEL:",
        "elif state is None and transition.act is Act.CANCEL:",
    ),
    Mutant(
        "another result is taken for a repeat",
        LIFECYCLE,
        "(transition.act is not Act.COMPLETE or transition.result == result)",
        "True",
    ),
    Mutant(
        "a repeat is known only until the next claim",
        LIFECYCLE,
        "    return any(\n        ended.token == transition.token",
        "    return last_token == transition.token and any(\n"
        "        ended.token == transition.token",
    ),
    Mutant(
        "a burial is taken for the repeat of a retry",
        LIFECYCLE,
        '        and ended.to in ("", transition.to)\n',
        "",
    ),
    Mutant(
        "release does not give the attempt back",
        LIFECYCLE,
        "        attempts=job.attempts - 1,\n        note=short_note(note),",
        "        attempts=job.attempts,\n        note=short_note(note),",
    ),
    Mutant(
        "a job that was asked to stop runs again",
        LIFECYCLE,
        "if cancel_requested and transition.to in _UNDONE:",
        "if False:",
    ),
    Mutant(
        "a job that was asked to stop is dead-lettered",
        LIFECYCLE,
        "_UNDONE = WAITING | {State.FAILED}",
        "_UNDONE = WAITING",
    ),
    Mutant(
        "keys-if-undelivered are written for a cancelled job",
        LIFECYCLE,
        "return transition.keys if landed is State.FAILED else ()",
        "return transition.keys",
    ),
    Mutant(
        "a draft replaces failed jobs of kinds that it may not",
        LIFECYCLE,
        "return state in KEEPS_ID or (draft.replaces is not None and kind not in draft.replaces)",
        "return state in KEEPS_ID",
    ),
    Mutant(
        "an edit does not see that the job has run since",
        LIFECYCLE,
        "return Seen(state, token, priority, payload,",
        "return Seen(state, 0, priority, payload,",
    ),
    Mutant(
        "an attempt that is not the last calls back",
        LIFECYCLE,
        "return transition.calls_back and landed.terminal",
        "return transition.calls_back",
    ),
    Mutant(
        "a job that is cancelled while it is swept vanishes",
        LIFECYCLE,
        "to, keep = State.QUEUED, policy.keep_cancelled",
        "to, keep = State.QUEUED, 0.0",
    ),
    Mutant(
        "a job moves to another tenant",
        LIFECYCLE,
        "return source.tenant == target.tenant and source.name != target.name",
        "return source.name != target.name",
    ),
    Mutant(
        "keys-if-undelivered are forgotten when a lease expires",
        LIFECYCLE,
        "policy.keep_failed, job.options.keys_if_undelivered\n    return",
        "policy.keep_failed, ()\n    return",
    ),
    Mutant(
        "priorities are upside down",
        LIFECYCLE,
        "return ready_at - priority * ageing",
        "return ready_at + priority * ageing",
    ),
    Mutant(
        "jitter can exceed the delay",
        "retry.py",
        "return delay / 2 + random.uniform(0.0, delay / 2)",
        "return delay / 2 + random.uniform(0.0, delay)",
    ),
    Mutant(
        "a kind's policy outweighs the job's own",
        "config.py",
        "narrow = _narrow(wider, record.options)",
        "return _narrow(_narrow(wider, record.options), settings.kinds.get(record.kind, _NOTHING))",
    ),
]

MEMORY = [
    Mutant(
        "promote is early",
        _LINES,
        "return job if job is not None and job.at <= now else None",
        "return job if job is not None and job.at <= now + 1 else None",
    ),
    Mutant(
        "dedup ignores the tenant",
        _ROOM,
        "        shelf = self.shelves.get(queue)\n        if shelf is None:",
        "        queue = QueueKey('default', queue.name)\n"
        "        shelf = self.shelves.get(queue)\n        if shelf is None:",
    ),
    Mutant(
        "the result TTL is ignored",
        _LINES,
        "if job is not None and job.state.terminal and job.at <= now:",
        "if job is None:",
    ),
    Mutant(
        "a promotion has no journal entry",
        _JOBS,
        "    room.write_journal(shelf, now, journal)\n    return len(journal)\n",
        "    return len(journal)\n",
    ),
    Mutant(
        "a dropped job is still counted",
        _LINES,
        "            job.line.count -= 1\n            job.line = None",
        "            job.line = None",
    ),
    Mutant(
        "release loses its place in the line",
        LIFECYCLE,
        "Stands.BACK if transition.act is Act.RELEASE else Stands.FRESH",
        "Stands.FRESH",
    ),
    Mutant(
        "a group is never let forward",
        _LINES,
        "            self._unpark(line.first())",
        "            line.first()",
    ),
    Mutant(
        "cancelling the next of a group strands the rest",
        _LINES,
        "if group is None or source not in (State.QUEUED, State.PROCESSING):",
        "if group is None or source is not State.PROCESSING:",
    ),
    Mutant(
        "a repeat writes its event again",
        _APPLY,
        "        return Verdict(again, job.state)",
        "        if again:\n            journal.append(Entry(transition.act, job.id, job.kind, "
        "State.PROCESSING, job.state))\n        return Verdict(again, job.state)",
    ),
    Mutant(
        "a sweep takes live leases",
        _LOOKING,
        "    over = [job for job in line.jobs() if job.at <= now]",
        "    over = line.jobs()",
    ),
    Mutant(
        "a heartbeat shortens a lease that was extended",
        LIFECYCLE,
        "return max(deadline, now + seconds)",
        "return now + seconds",
    ),
    Mutant(
        "a paused queue tells when jobs are due",
        _JOBS,
        "due = () if shelf.settings.paused else (State.SCHEDULED, State.FAILING)",
        "due = (State.SCHEDULED, State.FAILING)",
    ),
    Mutant(
        "a heartbeat revives a lapsed lease",
        _JOBS,
        "            or job.at <= now\n",
        "",
    ),
    Mutant(
        "tokens lean on the clock alone",
        _LINES,
        "max(self.last_token + 1, int(now * 1e6))",
        "int(now * 1e6)",
    ),
    Mutant(
        "a move overwrites the id that is there",
        _JOBS,
        "taken = room.shelf(transition.target).find(job.id, now) is not None",
        "taken = False",
    ),
    Mutant(
        "a claim counts no attempt",
        _JOBS,
        "        job.attempts += 1\n",
        "",
    ),
    Mutant(
        "a purge ignores what it was asked for",
        _OPERATING,
        "if which.matches(job.record(history=False)))",
        "if which)",
    ),
    Mutant(
        "a list shows what was there before",
        _LINES,
        '        """Put a job in the line of a state."""\n        self.listings.clear()\n',
        '        """Put a job in the line of a state."""\n',
        shown_by="tests/stores/test_memory.py",
    ),
    Mutant(
        "a queue is dropped with its jobs",
        _OPERATING,
        "    if shelf.jobs:\n        return False\n",
        "",
    ),
    Mutant(
        "a dropped queue keeps its settings",
        _OPERATING,
        "        shelf.settings = DEFAULT_SETTINGS\n",
        "",
    ),
    Mutant(
        "a dropped queue is never listed again",
        _ROOM,
        "        shelf.dropped_queue = False\n",
        "",
    ),
    Mutant(
        "scheduled jobs are pruned",
        _OPERATING,
        "    for state in filter(TERMINAL.__contains__, State):",
        "    for state in (*TERMINAL, State.SCHEDULED):",
    ),
    Mutant(
        "a journal cursor skips an entry",
        "events.py",
        "start = used if batch.number == number else 0",
        "start = used + 1 if batch.number == number and used else 0",
    ),
    Mutant(
        "a cancel request outlives its lease",
        _APPLY,
        "    job.act = transition.act\n    job.cancel_requested = False\n",
        "    job.act = transition.act\n",
    ),
    Mutant(
        "a full queue still accepts",
        _JOBS,
        "if new and sum(counts[state] for state in LIVE) + new > limit:",
        "if new > limit:",
    ),
    Mutant(
        "an enqueue does not look at the versions of its keys",
        _JOBS,
        "    if not write_keys(room, queue.tenant, keys):\n        raise KeysChanged(str(queue))\n",
        "    write_keys(room, queue.tenant, keys)\n",
    ),
]

_SQL = "stores/sqlite/queries"
_PRESENCE = "tests/stores/sqlite/test_presence.py"

SQLITE = [
    Mutant(
        "sqlite: who falls behind with the news is not told so",
        "stores/sqlite/wake.py",
        "if len(data) > self._capacity * 3 // 4:",
        "if not data:",
        "tests/stores/sqlite/test_wake.py",
    ),
    Mutant(
        "sqlite: an enqueue does not look at the versions of its keys",
        "stores/sqlite/enqueue.py",
        "    if keys and not write_keys(tx, queue.tenant, keys):\n"
        "        raise KeysChanged(str(queue))\n",
        "    write_keys(tx, queue.tenant, keys)\n",
    ),
    Mutant(
        "sqlite: the fence of the quick path is not checked",
        "stores/sqlite/apply.py",
        "                or row[TOKEN] != transition.token\n",
        "",
    ),
    Mutant(
        "sqlite: a claim counts no attempt",
        f"{_SQL}/claim.sql",
        "attempts = attempts + 1, token = ?3",
        "token = ?3",
    ),
    Mutant(
        "sqlite: a sweep takes live leases",
        f"{_SQL}/claim.sql",
        "WHERE p.slot = ? AND p.at <= ? ORDER BY p.at, p.job LIMIT ?;\n\n-- name: held",
        "WHERE p.slot = ? AND ? > 0 ORDER BY p.at, p.job LIMIT ?;\n\n-- name: held",
    ),
    Mutant(
        "sqlite: a heartbeat revives a lapsed lease",
        "stores/sqlite/heartbeat.py",
        " or row[AT] <= now:",
        ":",
    ),
    Mutant(
        "sqlite: counts are not written",
        "stores/sqlite/apply.py",
        "            lines.shift(lines.slot(_PROCESSING), completed, len(nums))\n",
        "",
    ),
    Mutant(
        "sqlite: a group is never let forward",
        "stores/sqlite/groups.py",
        "        if room > 0:",
        "        if room > 10**9:",
    ),
    Mutant(
        "sqlite: the rank of a job is not kept",
        "stores/sqlite/step.py",
        "old_rank=job.rank",
        "old_rank=now",
    ),
    Mutant(
        "sqlite: the result TTL is ignored",
        "stores/sqlite/enqueue.py",
        "self.state = None if state.terminal and at <= now else state",
        "self.state = state",
    ),
    Mutant(
        "sqlite: an edit of the payload is lost",
        "stores/sqlite/step.py",
        '        lines.tx.execute(sql("set_payload"), (edit.payload, job.num))',
        "        pass",
    ),
    Mutant(
        "sqlite: a promotion has no journal entry",
        "stores/sqlite/claim.py",
        '    lines.tx.executemany(sql("put"), places)\n    lines.write_journal(now, entries)\n',
        '    lines.tx.executemany(sql("put"), places)\n',
    ),
    Mutant(
        "sqlite: whoever closes the file may remove the log",
        "stores/sqlite/presence.py",
        "        fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)",
        "        del wanted",
        shown_by=_PRESENCE,
    ),
    Mutant(
        "sqlite: whoever opens the file may build the index of the log anew",
        "stores/sqlite/presence.py",
        ', "-shm": (128, 1)}',
        "}",
        shown_by=_PRESENCE,
    ),
    Mutant(
        "sqlite: a claim opens the lines of all kinds",
        "stores/sqlite/merging.py",
        "    lines = [(head, slot, None, nothing) for head, slot in heads]",
        "    lines = [(head, slot, None, read(slot)) for head, slot in heads]",
        shown_by="tests/stores/sqlite/test_statements.py",
    ),
]

_REDIS = "stores/redis"
_LUA = "stores/redis/scripts"
_STEPS = "stores/redis/scripts/lib/steps.lua"
_JOB = "stores/redis/scripts/lib/job.lua"
_QUEUE = "stores/redis/scripts/lib/queue.lua"
_CLAIM = "stores/redis/scripts/lib/claim.lua"
_GROUPS = "stores/redis/scripts/lib/groups.lua"
_MOVE = "stores/redis/scripts/lib/move.lua"

REDIS = [
    Mutant(
        "redis: an enqueue does not look at the versions of its keys",
        f"{_LUA}/enqueue.lua",
        "if not as_expected(room, 6, last_key) then\n"
        "  return redis.error_reply('KEYSCHANGED')\nend\n",
        "",
    ),
    Mutant(
        "redis: an enqueue writes none of its keys",
        f"{_LUA}/enqueue.lua",
        "write_given(room, 6, last_key)\n",
        "",
    ),
    Mutant(
        "redis: the fence of the quick path is not checked",
        _STEPS,
        "  return {fits = found == token, worker",
        "  return {fits = true, worker",
    ),
    Mutant(
        "redis: the quick path completes what is not leased",
        _STEPS,
        "local leased = place and byte(place) == PROCESSING\n",
        "local leased = place\n",
    ),
    Mutant(
        "redis: the fence is not checked",
        _STEPS,
        "if step.token and step.token ~= job.token then",
        "if false then",
    ),
    Mutant(
        "redis: a sweep does not look at the deadline it saw",
        _STEPS,
        "if step.deadline and step.deadline ~= at_of(queue, job) then",
        "if false then",
    ),
    Mutant(
        "redis: extend revives a lapsed lease",
        _STEPS,
        "if step.unlapsed and at_of(queue, job) <= now then",
        "if false then",
    ),
    Mutant(
        "redis: a job that was asked to stop runs again",
        _STEPS,
        "return step.asked and has(job, ASKED) and step.asked or landing",
        "return landing",
    ),
    Mutant(
        "redis: a cancel request outlives its lease",
        _STEPS,
        "  job.act = step.code\n  clear(job, ASKED)\n",
        "  job.act = step.code\n",
    ),
    Mutant(
        "redis: a cancel request outlives its completion",
        _STEPS,
        "bit.band(flags, bit.bnot(ASKED))",
        "flags",
    ),
    Mutant(
        "redis: an attempt that ended is not remembered",
        _STEPS,
        "  if step.data == 'ended' then\n    remember(queue, job, data)\n  end\n",
        "",
    ),
    Mutant(
        "redis: a step has no journal entry",
        _STEPS,
        "  note(queue, step.act, source, to, job.token, job.worker, step.note, step.by, job.id, "
        "job.kind,\n    job.attempts)\n",
        "",
    ),
    Mutant(
        "redis: steps are not counted",
        _STEPS,
        "    shift(queue, source, to, 1)\n",
        "",
    ),
    Mutant(
        "redis: quick completions are taken to be of one kind and group",
        _STEPS,
        "not (shared and find(place, shared.text, MIDDLE_AT, true) == MIDDLE_AT) then",
        "not shared then",
    ),
    Mutant(
        "redis: quick completions are not counted",
        _STEPS,
        "  shift(queue, PROCESSING, COMPLETED, ",
        "  shift(queue, PROCESSING, PROCESSING, ",
    ),
    Mutant(
        "redis: a quick completion never leaves its group",
        _STEPS,
        "        left[shared.group] = (left[shared.group] or 0) + 1\n",
        "        left[shared.group] = 0\n",
    ),
    Mutant(
        "redis: a quick completion stays leased",
        _STEPS,
        "  call_many('ZREM', queue.base .. ':processing', leaving)\n",
        "",
    ),
    Mutant(
        "redis: the result TTL of a quick completion is ignored",
        _STEPS,
        "local at = exact(now + step.lands[PROCESSING + 1][3])",
        "local at = exact(now + 3600)",
    ),
    Mutant(
        "redis: release does not give the attempt back",
        _STEPS,
        "  job.attempts = step.attempts or job.attempts\n",
        "",
    ),
    Mutant(
        "redis: release loses its place in the line",
        _STEPS,
        "  elseif how == 'back' then\n    return job.rank\n",
        "  elseif how == 'back' then\n    return now - job.priority * queue.ageing\n",
    ),
    Mutant(
        "redis: a new priority does not move a job in its line",
        _STEPS,
        "    return job.rank + (old_priority - job.priority) * queue.ageing\n",
        "    return job.rank\n",
    ),
    Mutant(
        "redis: keys-if-undelivered are written for a cancelled job",
        _STEPS,
        "if step.keys and job.state == FAILED then",
        "if step.keys then",
    ),
    Mutant(
        "redis: whoever waits is not told of a job that is given back",
        _STEPS,
        "job.state == SCHEDULED or job.state == FAILING then\n    tell(queue, 'ready')",
        "job.state == SCHEDULED or job.state == FAILING then\n    tell(queue, 'changes')",
    ),
    Mutant(
        "redis: the result TTL is ignored",
        _JOB,
        "return job.state >= COMPLETED and at_of(queue, job) <= now",
        "return false",
    ),
    Mutant(
        "redis: a job given back is found by no worker of all kinds",
        _JOB,
        "    if job.state == QUEUED and line ~= job.was then\n"
        "      open_line(queue, job.kind)\n    end\n",
        "",
    ),
    Mutant(
        "redis: the history of a replaced job is its successor's",
        _JOB,
        "      redis.call('DEL', queue.base .. ':history:' .. job.id)\n",
        "      job.flags = 0\n",
    ),
    Mutant(
        "redis: a dropped job is still counted",
        _JOB,
        "    shift(queue, job.state, nil, 1)\n",
        "",
    ),
    Mutant(
        "redis: a short result is forgotten when its job is written anew",
        _JOB,
        "  job.result = string.sub(packed, at, -PLACE_END_SIZE - 1)\n",
        "  job.result = ''\n",
    ),
    Mutant(
        "redis: equal places are ordered by id",
        _JOB,
        "  return struct.pack('>I6', number) .. id\n",
        "  return struct.pack('>I6', 0) .. id\n",
    ),
    Mutant(
        "redis: counts are not written",
        _QUEUE,
        "      redis.call('HINCRBY', queue.base .. ':counts', state, count)\n",
        "",
    ),
    Mutant(
        "redis: ready is never published",
        _QUEUE,
        "if topic ~= 'ready' or queue.idle then",
        "if topic ~= 'ready' then",
    ),
    Mutant(
        "redis: events of one batch lose their reason",
        _QUEUE,
        "  begin_run(queue, act, source, to, token, worker, why, by, kind, attempt, {id})\n"
        "  queue.run = nil\n",
        "  queue.run = begin_run(queue, act, source, to, token, worker, why, by, kind, attempt, "
        "{id})\n",
    ),
    Mutant(
        "redis: all jobs of a batch are told to be of one kind and attempt",
        _QUEUE,
        "    if values[index] ~= values[1] then\n",
        "    if false then\n",
    ),
    Mutant(
        "redis: an event of another kind changes those before it",
        _QUEUE,
        "      values[index] = common\n",
        "      values[index] = value\n",
    ),
    Mutant(
        "redis: promote is early",
        _CLAIM,
        "  return redis.call('ZRANGEBYSCORE', line, '-inf', exact(now), 'WITHSCORES'",
        "  return redis.call('ZRANGEBYSCORE', line, '-inf', exact(now + 1), 'WITHSCORES'",
    ),
    Mutant(
        "redis: a promotion has no journal entry",
        _CLAIM,
        "    note(queue, 'promote', job.state, QUEUED, 0, '', '', '', job.id, job.kind, "
        "job.attempts)\n",
        "",
    ),
    Mutant(
        "redis: a promoted job stands in line from now on",
        _CLAIM,
        "job.state, job.at = QUEUED, job.at - job.priority * queue.ageing",
        "job.state, job.at = QUEUED, now - job.priority * queue.ageing",
    ),
    Mutant(
        "redis: promotions are not told",
        _CLAIM,
        "  save_jobs(queue, jobs)\n  tell(queue, 'ready')\n",
        "  save_jobs(queue, jobs)\n",
    ),
    Mutant(
        "redis: tokens lean on the clock alone",
        _CLAIM,
        "  if token <= queue.token then\n    token = queue.token + leap\n  end\n",
        "",
    ),
    Mutant(
        "redis: a claim after the first counts no attempt",
        _CLAIM,
        "local attempts = struct.unpack('>I4', place, ATTEMPTS_AT) + 1",
        "local attempts = struct.unpack('>I4', place, ATTEMPTS_AT)",
    ),
    Mutant(
        "redis: progress outlives its lease",
        _CLAIM,
        "local flags = bit.band(had, bit.bnot(PROGRESS))",
        "local flags = had",
    ),
    Mutant(
        "redis: the lease of a job is ignored",
        _CLAIM,
        "  if seconds == 0 then\n    seconds = lease.of_kind[kind] or lease.usual\n  end\n",
        "  seconds = lease.of_kind[kind] or lease.usual\n",
    ),
    Mutant(
        "redis: jobs of a kind are taken to be alike",
        _CLAIM,
        "if kinds[index] ~= kind or find(body, head.text, 9, true) ~= 9 then",
        "if kinds[index] ~= kind then",
    ),
    Mutant(
        "redis: one too many of a group",
        _CLAIM,
        "if running[group] >= queue.group_limit and not",
        "if running[group] > queue.group_limit and not",
    ),
    Mutant(
        "redis: a claim does not say that somebody waits",
        f"{_LUA}/claim.lua",
        "save_lease(queue, token, wanting)",
        "save_lease(queue, token, false)",
    ),
    Mutant(
        "redis: a paused queue hands out jobs",
        f"{_LUA}/claim.lua",
        "if not queue.paused then",
        "if true then",
    ),
    Mutant(
        "redis: held jobs are never let forward",
        _GROUPS,
        "  if room > 0 then\n",
        "  if room > 1e9 then\n",
    ),
    Mutant(
        "redis: cancelling the next of a group strands the rest",
        _GROUPS,
        "  elseif source == QUEUED then\n    left[job.group] = left[job.group] or 0\n",
        "",
    ),
    Mutant(
        "redis: a group is never left",
        _GROUPS,
        "    left[job.group] = (left[job.group] or 0) + 1\n",
        "    left[job.group] = left[job.group] or 0\n",
    ),
    Mutant(
        "redis: a higher limit does not reach the groups that wait",
        _GROUPS,
        "  redis.call('SADD', queue.base .. ':held', job.group)\n",
        "",
    ),
    Mutant(
        "redis: a move overwrites the id that is there",
        _MOVE,
        "  return not old or old.over\n",
        "  return true\n",
    ),
    Mutant(
        "redis: a moved job loses its history",
        _MOVE,
        "    redis.call('RENAME', queue.base .. ':history:' .. id, "
        "target.base .. ':history:' .. id)\n",
        "",
    ),
    Mutant(
        "redis: tokens go back where a job was moved to",
        _MOVE,
        "  if job.token > target.token then\n",
        "  if false then\n",
    ),
    Mutant(
        "redis: enqueue does not look for duplicates within a batch",
        f"{_LUA}/enqueue.lua",
        "all_new = all_new and ARGV[2] == '1'",
        "all_new = all_new",
    ),
    Mutant(
        "redis: what a new job replaces is not dropped",
        f"{_LUA}/enqueue.lua",
        "drop_jobs(queue, replaced)\n",
        "",
    ),
    Mutant(
        "redis: a full queue still accepts",
        f"{_LUA}/enqueue.lua",
        "  return new == 0 or live + new <= queue.max_jobs\n",
        "  return true\n",
    ),
    Mutant(
        "redis: an enqueue is not told",
        f"{_LUA}/enqueue.lua",
        "    open_line(queue, kind)\n  end\n  tell(queue, 'ready')\n",
        "    open_line(queue, kind)\n  end\n",
    ),
    Mutant(
        "redis: a heartbeat shortens a lease that was extended",
        f"{_LUA}/heartbeat.lua",
        "exact(math.max(at_of(queue, job), now + seconds))",
        "exact(now + seconds)",
    ),
    Mutant(
        "redis: a heartbeat revives a lapsed lease",
        f"{_LUA}/heartbeat.lua",
        " and at_of(queue, job) > now then",
        " then",
    ),
    Mutant(
        "redis: a heartbeat keeps another's lease",
        f"{_LUA}/heartbeat.lua",
        "job.state == PROCESSING and job.token == token and",
        "job.state == PROCESSING and",
    ),
    Mutant(
        "redis: a sweep takes live leases",
        f"{_LUA}/lib/look.lua",
        "redis.call('ZRANGEBYSCORE', line, '-inf', exact(now), 'WITHSCORES', 'LIMIT', 0, limit)",
        "redis.call('ZRANGEBYSCORE', line, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, limit)",
    ),
    Mutant(
        "redis: prune does not wait for the end of retention",
        f"{_LUA}/prune.lua",
        "redis.call('ZRANGEBYSCORE', line, '-inf', exact(now), 'LIMIT', 0, limit - count)",
        "redis.call('ZRANGEBYSCORE', line, '-inf', '+inf', 'LIMIT', 0, limit - count)",
    ),
    Mutant(
        "redis: pruned jobs have no journal entry",
        f"{_LUA}/prune.lua",
        "      note(queue, 'prune', state, NOWHERE, 0, '', '', '', id, job.kind, job.attempts)\n",
        "",
    ),
    Mutant(
        "redis: a purged job never leaves its group",
        f"{_LUA}/purge.lua",
        "leave_groups(queue, left)\n",
        "",
    ),
    Mutant(
        "redis: events that a reader needs are dropped by their age",
        f"{_LUA}/prune.lua",
        "if events <= most and (batch >= oldest or behind > 0) then",
        "if events <= most and batch >= oldest then",
    ),
    Mutant(
        "redis: the journal is not bounded by its size",
        f"{_LUA}/prune.lua",
        "if events <= most and (batch >= oldest or behind > 0) then",
        "if batch >= oldest or behind > 0 then",
    ),
    Mutant(
        "redis: one kind is served after the other",
        _CLAIM,
        "if lines[child] and before(lines[child], lines[best]) then",
        "if lines[child] and false then",
    ),
    Mutant(
        "redis: what is leased stays in its line",
        _CLAIM,
        "    if line.taken > 0 then\n",
        "    if line.taken > 1e9 then\n",
    ),
    Mutant(
        "redis: a repeat is refused",
        f"{_REDIS}/work.py",
        "                verdicts[index] = Verdict(True, verdicts[index].state)\n",
        "                verdicts[index] = Verdict(False, verdicts[index].state)\n",
    ),
    Mutant(
        "redis: steps of different ends are taken to be alike",
        f"{_REDIS}/steps.py",
        "    return msgspec.structs.replace(other, id=one.id) == one\n",
        "    return one.act is other.act\n",
    ),
    Mutant(
        "redis: settings are replaced whatever they are",
        f"{_REDIS}/keep.py",
        "if expected is not None and expected != current:",
        "if expected is not None and expected is None:",
    ),
    Mutant(
        "redis: a journal cursor repeats its batch",
        f"{_REDIS}/journal.py",
        "Events.take(_until_dropped(batches), read_cursor(after), limit)",
        "Events.take(_until_dropped(batches), (read_cursor(after)[0], 0), limit)",
    ),
    Mutant(
        "redis: a job past its retention is shown",
        f"{_REDIS}/look.py",
        "    return seen.record.state.terminal and seen.at <= now\n",
        "    return seen.at is None\n",
    ),
    Mutant(
        "redis: a claim leases more than its bytes",
        f"{_REDIS}/scripts/lib/claim.lua",
        "left = request.bytes and leave_rest(queue, members, kinds, ranks, most - bytes)",
        "left = nil",
    ),
]

_TESTS = "tests/stores/redis"

REDIS_ALONE = [
    Mutant(
        "redis: tokens that were lost are given out again",
        _CLAIM,
        "token = queue.token + leap",
        "token = queue.token + 1",
        f"{_TESTS}/test_tokens.py",
    ),
    Mutant(
        "redis: a full server cannot be worked off",
        _QUEUE,
        "  redis.call('HDEL', KEYS[2], '')\n",
        "",
        f"{_TESTS}/test_full.py",
    ),
    Mutant(
        "redis: results of jobs gone by are kept",
        _JOB,
        "  call_many('HDEL', queue.base .. ':result', results)\n",
        "",
        f"{_TESTS}/test_results.py",
    ),
    Mutant(
        "redis: groups gone by are kept",
        _GROUPS,
        "      redis.call('HDEL', queue.base .. ':groups', group)\n",
        "",
        f"{_TESTS}/test_bounded.py",
    ),
    Mutant(
        "redis: too many arguments for Lua at once",
        _QUEUE,
        "local MOST = 4000",
        "local MOST = 40000",
        f"{_TESTS}/test_large.py",
    ),
    Mutant(
        "redis: an answer as large as what is asked for",
        _CLAIM,
        "local MOST_BYTES = 8 * 1024 * 1024",
        "local MOST_BYTES = 8 * 1024 * 1024 * 1024",
        f"{_TESTS}/test_large.py",
    ),
    Mutant(
        "redis: a cut command is sent again",
        f"{_REDIS}/connection.py",
        "Retry(NoBackoff(), 0)",
        "Retry(NoBackoff(), 1)",
        f"{_TESTS}/test_retries.py",
    ),
    Mutant(
        "redis: a flushed script is not sent again",
        f"{_REDIS}/connection.py",
        "    except NoScriptError:\n",
        "    except ZeroDivisionError:\n",
        f"{_TESTS}/test_lost.py",
    ),
    Mutant(
        "redis: a broken line is not noticed by who waits",
        f"{_REDIS}/listen.py",
        "            self._unsubscribe()\n            return True\n",
        "            self._unsubscribe()\n            return False\n",
        f"{_TESTS}/test_listen.py",
    ),
    Mutant(
        "redis: who listens again does not say that he waits",
        f"{_REDIS}/listen.py",
        "            self._arm()\n",
        "            pass\n",
        f"{_TESTS}/test_wakeups.py",
    ),
    Mutant(
        "redis: any eviction policy will do",
        f"{_REDIS}/safety.py",
        'if facts.policy != "noeviction":',
        'if facts.policy == "":',
        f"{_TESTS}/test_open.py::TestUnsafe",
    ),
    Mutant(
        "redis: the client's clock is the store's",
        f"{_REDIS}/script_calls.py",
        'return "" if self._clock is None else repr(self._clock.now())',
        'return repr(__import__("time").time() if self._clock is None else self._clock.now())',
        f"{_TESTS}/test_time.py",
    ),
]
"""Seen only where a server has no memory, loses its last writes, or is cut off."""

ALL = [
    *RULES,
    *MEMORY,
    *SQLITE,
    *REDIS,
    *REDIS_ALONE,
    *HANDING,
    *POSTGRES,
    *POSTGRES_ALONE,
    *SPARK,
]
QUICK = [RULES[0], MEMORY[3]]
"""The control in every run: two that must die."""
