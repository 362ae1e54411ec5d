"""Faults made by hand in the PostgreSQL store, its SQL among them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_STORE = "stores/postgres"
_APPLY = f"{_STORE}/apply.py"
_STEP = f"{_STORE}/step.py"
_LEASES = f"{_STORE}/leases.py"
_CLAIM = f"{_STORE}/claim.py"
_TAKING = f"{_STORE}/taking.py"
_PICKING = f"{_STORE}/picking.py"
_HINTS = f"{_STORE}/hints.py"
_ENQUEUE = f"{_STORE}/enqueue.py"
_BEAT = f"{_STORE}/heartbeat.py"
_GROUPS = f"{_STORE}/groups.py"
_KEEP = f"{_STORE}/keep.py"
_MOVE = f"{_STORE}/move.py"
_JOURNAL = f"{_STORE}/journal.py"
_SQL = f"{_STORE}/queries"
_TESTS = "tests/stores/postgres"

POSTGRES = [
    Mutant(
        "postgres: an enqueue does not look at the versions of its keys",
        _ENQUEUE,
        "    if keys and not write_keys(tx, queue.tenant, keys):\n"
        "        raise KeysChanged(str(queue))\n",
        "    write_keys(tx, queue.tenant, keys)\n",
    ),
    Mutant(
        "postgres: the fence of the quick path is not checked",
        _APPLY,
        "                or lease.token != transition.token\n",
        "",
    ),
    Mutant(
        "postgres: quick completions are not counted",
        _APPLY,
        "        self._tx.shift(self._entry.num, _PROCESSING, _COMPLETED, len(done))\n",
        "",
    ),
    Mutant(
        "postgres: a quick completion stays leased",
        _APPLY,
        "            self._finding.leases.leave(num)\n",
        "",
    ),
    Mutant(
        "postgres: a quick completion never leaves its group",
        _APPLY,
        "                self._left[group] += 1\n",
        "                self._left[group] += 0\n",
    ),
    Mutant(
        "postgres: the result TTL of a quick completion is ignored",
        _APPLY,
        "now + transition.keep for",
        "now + 3600.0 for",
    ),
    Mutant(
        "postgres: steps have no journal entry",
        _APPLY,
        "        changes.entries += [entry for entry in self._entries if entry is not None]\n",
        "",
    ),
    Mutant(
        "postgres: steps are not counted",
        _APPLY,
        "            self._tx.shift(self._entry.num, source, job.state)\n",
        "            pass\n",
    ),
    Mutant(
        "postgres: what is past its retention can be acted upon",
        _APPLY,
        "if job is None or job.over(now):",
        "if job is None:",
    ),
    Mutant(
        "postgres: whoever waits is not told of a job that is given back",
        _APPLY,
        '            self._tx.news.add(("ready", self._entry.key))\n',
        "            pass\n",
        f"{_TESTS}/test_wakeups.py",
    ),
    Mutant(
        "postgres: a cancel request is not told",
        _APPLY,
        '            self._tx.news.add(("signals", self._entry.key))\n',
        "            pass\n",
        f"{_TESTS}/test_wakeups.py",
    ),
    Mutant(
        "postgres: a group is never left",
        _APPLY,
        "            self._left[job.group] += 1\n",
        "            self._left[job.group] += 0\n",
    ),
    Mutant(
        "postgres: cancelling the next of a group strands the rest",
        _APPLY,
        "        elif source is State.QUEUED:\n",
        "        elif source is State.COMPLETED:\n",
    ),
    Mutant(
        "postgres: a repeat is refused",
        _APPLY,
        "return repeats(transition, act, job.token, result, history)",
        "return False",
    ),
    Mutant(
        "postgres: another result is taken for a repeat",
        _APPLY,
        "result = rows[0][0] if rows else None",
        "result = transition.result",
    ),
    Mutant(
        "postgres: two steps of one batch do not see each other",
        _APPLY,
        "if len(ids) == len(transitions):",
        "if ids:",
    ),
    Mutant(
        "postgres: release does not give the attempt back",
        _STEP,
        "            job.attempts = transition.attempts\n",
        "            pass\n",
    ),
    Mutant(
        "postgres: an attempt that ended is not remembered",
        _STEP,
        "            self._ended.append((job.num, ended))\n",
        "            pass\n",
    ),
    Mutant(
        "postgres: a job that was asked to stop runs again",
        _STEP,
        "land(transition, job.state, job.cancel_requested)",
        "land(transition, job.state, False)",
    ),
    Mutant(
        "postgres: extend moves no deadline",
        _STEP,
        "                self._leases.extend(job.num, at)\n",
        "",
    ),
    Mutant(
        "postgres: the history of a job grows for ever",
        _STEP,
        '        self._tx.send("forget_attempts", {"jobs": Ints(nums), "keep": HISTORY_LIMIT})\n',
        "",
    ),
    Mutant(
        "postgres: an edit forgets the new priority",
        _STEP,
        "            job.priority = edit.priority\n",
        "            pass\n",
    ),
    Mutant(
        "postgres: who is extended is no longer asked to stop",
        _LEASES,
        "            new.cancel_requested.add(num)\n",
        "            pass\n",
    ),
    Mutant(
        "postgres: a lease whose jobs are all settled stays",
        _LEASES,
        "                    gone.append(lease.num)\n",
        "                    pass\n",
    ),
    Mutant(
        "postgres: a lease that shrinks is not written",
        _LEASES,
        "                if lease.changed:\n",
        "                if lease.num is None:\n",
    ),
    Mutant(
        "postgres: one lease for several deadlines",
        _LEASES,
        "new = self._extended.get((id(old), deadline))",
        "new = self._new[-1] if self._new else None",
    ),
    Mutant(
        "postgres: a claim counts no attempt",
        _TAKING,
        '"attempts": Ints([(row[_ATTEMPTS] or 0) + 1 for row in rows])',
        '"attempts": Ints([(row[_ATTEMPTS] or 0) for row in rows])',
    ),
    Mutant(
        "postgres: one too many of a group",
        _TAKING,
        "self._running[group] + self._entered[group] >= self._most",
        "self._running[group] + self._entered[group] > self._most",
    ),
    Mutant(
        "postgres: a paused queue hands out jobs",
        _CLAIM,
        "    if entry.settings.paused:\n        return answered",
        "    if queue is None:\n        return answered",
    ),
    Mutant(
        "postgres: a claim of some kinds takes all",
        _TAKING,
        "[line for kind, line in lines.items() if kinds is None or kind in kinds]",
        "list(lines.values())",
    ),
    Mutant(
        "postgres: claims are not counted",
        _TAKING,
        "        tx.shift(entry.num, _QUEUED, _PROCESSING, len(records))\n",
        "",
    ),
    Mutant(
        "postgres: what was looked at past a full group is lost",
        _TAKING,
        "self._homes.ready(row[_JOB], name_of(row[_KIND]), ODD, row[_RANK], past_of(row))\n",
        "pass\n",
    ),
    Mutant(
        "postgres: a claim tells of no lapsed lease",
        _CLAIM,
        "if leased is not None and leased <= now:",
        "if leased is not None and leased <= 0:",
    ),
    Mutant(
        "postgres: a claim does not see the group that its own settling leaves",
        _CLAIM,
        " or body is None or body[2] is not None:",
        " or body is None:",
    ),
    Mutant(
        "postgres: a claim promotes nothing",
        _PICKING,
        "            promote(self._tx, self._entry, REPAIR_LIMIT)\n",
        "",
    ),
    Mutant(
        "postgres: promotions are not counted",
        _PICKING,
        "        tx.shift(entry.num, source, State.QUEUED)\n",
        "",
    ),
    Mutant(
        "postgres: promotions are not told",
        _PICKING,
        '    tx.news.add(("ready", entry.key))\n',
        "",
        f"{_TESTS}/test_wakeups.py",
    ),
    Mutant(
        "postgres: jobs are handed out as their rows come",
        _PICKING,
        "        taken.sort(key=_place_of)\n",
        "        taken.sort(key=_place_of, reverse=True)\n",
    ),
    Mutant(
        "postgres: a full queue still accepts",
        _ENQUEUE,
        "    if live + new > limit:\n",
        "    if live > limit + new:\n",
    ),
    Mutant(
        "postgres: the later of two drafts of one id is taken",
        _ENQUEUE,
        "fresh.setdefault(draft.id, draft)",
        "fresh[draft.id] = draft",
    ),
    Mutant(
        "postgres: what a new job replaces is not dropped",
        _ENQUEUE,
        '    tx.send("drop_jobs", {"jobs": Ints(nums)})\n',
        "",
    ),
    Mutant(
        "postgres: what a new job replaces is still counted",
        _ENQUEUE,
        "        tx.shift(entry.num, STATES[code], None)\n",
        "        pass\n",
    ),
    Mutant(
        "postgres: a heartbeat revives a lapsed lease",
        _BEAT,
        "        if lease.deadline <= tx.now:\n",
        "        if lease.deadline <= 0:\n",
    ),
    Mutant(
        "postgres: a heartbeat keeps another's lease",
        _BEAT,
        "if lease is None or lease.token != hold.token:",
        "if lease is None:",
    ),
    Mutant(
        "postgres: a heartbeat does not tell of a cancel request",
        _BEAT,
        "            found.cancelled.append(index)\n",
        "            pass\n",
    ),
    Mutant(
        "postgres: held jobs are never let forward",
        _GROUPS,
        "        if room > 0:\n",
        "        if room > 10**9:\n",
    ),
    Mutant(
        "postgres: a higher limit does not reach the groups that wait",
        _KEEP,
        "    if settings.group_limit > before.group_limit:\n",
        "    if settings.group_limit < before.group_limit:\n",
    ),
    Mutant(
        "postgres: settings are replaced whatever they are",
        _KEEP,
        "if expected is not None and expected != before:",
        "if expected is not None and expected is None:",
    ),
    Mutant(
        "postgres: pruned jobs are still counted",
        _KEEP,
        "            tx.shift(entry.num, state, None, len(rows))\n",
        "",
    ),
    Mutant(
        "postgres: a purged job never leaves its group",
        _KEEP,
        "        leave_groups(tx, entry, left)\n",
        "",
    ),
    Mutant(
        "postgres: a moved job is not counted where it arrives",
        _MOVE,
        "        self._tx.shift(target.num, None, job.state)\n",
        "",
    ),
    Mutant(
        "postgres: nobody is told of a job that arrives",
        _MOVE,
        '            self._tx.news.add(("ready", target.key))\n',
        "",
        f"{_TESTS}/test_wakeups.py",
    ),
    Mutant(
        "postgres: a move replaces a job that stays",
        _MOVE,
        "if old.home != REST or not old.over(self._tx.now):",
        "if old.home != REST:",
    ),
    Mutant(
        "postgres: events that a reader needs are dropped by their age",
        _JOURNAL,
        "        if needed and gone >= surplus:\n            break\n",
        "",
    ),
    Mutant(
        "postgres: the journal is not bounded by its size",
        _JOURNAL,
        "        if at >= oldest and gone >= surplus:\n",
        "        if at >= oldest:\n",
    ),
    Mutant(
        "postgres: a journal cursor repeats its batch",
        _JOURNAL,
        "Events.take(batches, start, limit)",
        "Events.take(batches, (start[0], 0), limit)",
    ),
    Mutant(
        "postgres: a failed job is never tried again",
        f"{_SQL}/claim.sql",
        "WHERE queue = %(queue)b::int AND state = 3 AND at <= %(now)b::float8\n         ORDER BY",
        "WHERE queue = %(queue)b::int AND state = 9 AND at <= %(now)b::float8\n         ORDER BY",
    ),
    Mutant(
        "postgres: a promoted job stands in line from now on",
        f"{_SQL}/claim.sql",
        "SELECT line, 10 + priority, at - priority",
        "SELECT line, 10 + priority, %(now)b::float8 - priority",
    ),
    Mutant(
        "postgres: a sweep takes live leases",
        f"{_SQL}/claim.sql",
        " AND l.deadline <= %(now)b::float8\n",
        " AND %(now)b::float8 > 0\n",
    ),
    Mutant(
        "postgres: what one worker holds is what all hold",
        f"{_SQL}/claim.sql",
        " AND l.worker = %(worker)b\n",
        " AND %(worker)b::bytea IS NOT NULL\n",
    ),
    Mutant(
        "postgres: a job past its retention is listed",
        f"{_SQL}/look.sql",
        "  AND (r.state < 4 OR r.at > %(now)b::float8)\n",
        "  AND %(now)b::float8 IS NOT NULL\n",
    ),
    Mutant(
        "postgres: a claim leases more than its bytes",
        f"{_SQL}/claim.sql",
        "WHERE coalesce(before, 0) < %(max_bytes)b::bigint;",
        "WHERE %(max_bytes)b::bigint IS NOT NULL;",
    ),
    Mutant(
        "postgres: progress outlives its lease",
        f"{_SQL}/look.sql",
        "WHERE job = u.job AND token = l.token OFFSET 0",
        "WHERE job = u.job OFFSET 0",
    ),
    Mutant(
        "postgres: prune does not wait for the end of retention",
        f"{_SQL}/keep.sql",
        "AND state = %(state)b::smallint AND at <= %(now)b::float8\n",
        "AND state = %(state)b::smallint AND at > %(now)b::float8\n",
    ),
    Mutant(
        "postgres: jobs are enqueued into a queue as it was",
        f"{_SQL}/enqueue.sql",
        "WHERE num = %(queue)b::int AND version = %(version)b::bigint\n), body",
        "WHERE num = %(queue)b::int AND version <= %(version)b::bigint + 9\n), body",
        f"{_TESTS}/test_server_log.py",
    ),
    Mutant(
        "postgres: many jobs are enqueued into a queue as it was",
        f"{_STORE}/migrations/0001_start.sql",
        "WHERE q.num = in_queue AND q.version = in_version\n",
        "WHERE q.num = in_queue AND q.version <= in_version + 9\n",
        f"{_TESTS}/test_server_log.py",
    ),
    Mutant(
        "postgres: the journal tells of new jobs that were known",
        f"{_SQL}/journal.sql",
        "%(size)b::int, %(entries)b\nWHERE %(blind)b::bigint = 0 OR ",
        "%(size)b::int, %(entries)b\nWHERE true OR %(blind)b::bigint = 0 OR ",
        f"{_TESTS}/test_server_log.py",
    ),
    Mutant(
        "postgres: a known id is an error to the server",
        f"{_SQL}/enqueue.sql",
        "    ON CONFLICT (queue, id) DO NOTHING RETURNING num, priority, created\n",
        "    RETURNING num, priority, created\n",
        f"{_TESTS}/test_server_log.py",
    ),
    Mutant(
        "postgres: who waits is not told",
        f"{_SQL}/news.sql",
        "AND until > clock_timestamp()\n",
        "AND until < clock_timestamp()\n",
        f"{_TESTS}/test_wakeups.py",
    ),
    Mutant(
        "postgres: a group counts nobody out",
        f"{_SQL}/queue.sql",
        "greatest(0, g.running + c.change)",
        "greatest(g.running, g.running + c.change)",
    ),
    Mutant(
        "postgres: jobs are unparked from the end of their line",
        f"{_SQL}/queue.sql",
        "ORDER BY rank, job LIMIT %(room)b::bigint FOR UPDATE",
        "ORDER BY rank DESC, job LIMIT %(room)b::bigint FOR UPDATE",
    ),
]

POSTGRES_ALONE = [
    Mutant(
        "postgres: a heartbeat waits for an open transaction",
        f"{_SQL}/apply.sql",
        "ORDER BY num + 0 FOR UPDATE SKIP LOCKED;",
        "ORDER BY num + 0 FOR UPDATE;",
        f"{_TESTS}/test_transactional.py",
    ),
    Mutant(
        "postgres: a lease that somebody is changing is called lost",
        _BEAT,
        "        (found.busy if held else found.lost).append(index)\n",
        "        found.lost.append(index)\n",
        f"{_TESTS}/test_transactional.py",
    ),
    Mutant(
        "postgres: a lease is called lost by the number of an earlier job",
        _BEAT,
        "    forget_numbers(entry, ids)\n",
        "",
        f"{_TESTS}/test_after_a_claim.py",
    ),
    Mutant(
        "postgres: a claim throws its jobs away when the look after them fails",
        _CLAIM,
        "        if not answer.jobs and not answer.verdicts:\n            raise\n",
        "        raise\n",
        f"{_TESTS}/test_after_a_claim.py",
    ),
    Mutant(
        "postgres: a claim waits for a group that an open transaction holds",
        f"{_SQL}/queue.sql",
        "    FOR UPDATE SKIP LOCKED\n), made AS",
        "    FOR UPDATE\n), made AS",
        f"{_TESTS}/test_transactional.py",
    ),
    Mutant(
        "postgres: heartbeats put leases together that were parted",
        _LEASES,
        "            self._extended[id(old), deadline] = new\n",
        "            for one in self._rows.values():\n"
        "                self._extended[id(one), deadline] = new\n",
        f"{_TESTS}/test_transactional.py",
    ),
    Mutant(
        "postgres: a token is not above those that the job had",
        _TAKING,
        "        if self._token <= highest:\n",
        "        if self._token <= 0:\n",
        f"{_TESTS}/test_tokens.py",
    ),
    Mutant(
        "postgres: a restored copy gives out tokens again",
        f"{_SQL}/queue.sql",
        "SET base = greatest(e.base, moment.milliseconds)",
        "SET base = e.base",
        f"{_TESTS}/test_tokens.py",
    ),
    Mutant(
        "postgres: a reader goes past a transaction that still runs",
        f"{_SQL}/journal.sql",
        "WHERE j.queue = %(queue)b::int\n"
        "  AND (j.era, j.moment, j.num) >= (%(era)b::int, %(moment)b::bigint::text::xid8, "
        "%(num)b::bigint)\n"
        "  AND (j.moment <= pg_snapshot_xmin(pg_current_snapshot())\n",
        "WHERE j.queue = %(queue)b::int\n"
        "  AND (j.era, j.moment, j.num) >= (%(era)b::int, %(moment)b::bigint::text::xid8, "
        "%(num)b::bigint)\n"
        "  AND (j.moment <= pg_snapshot_xmax(pg_current_snapshot())\n",
        f"{_TESTS}/test_journal.py",
    ),
    Mutant(
        "postgres: a batch that a late committer comes before is dropped",
        f"{_SQL}/journal.sql",
        "WHERE j.queue = %(queue)b::int\n"
        "  AND (j.moment <= pg_snapshot_xmin(pg_current_snapshot())\n",
        "WHERE j.queue = %(queue)b::int\n"
        "  AND (j.moment <= pg_snapshot_xmax(pg_current_snapshot())\n",
        f"{_TESTS}/test_journal.py",
    ),
    Mutant(
        "postgres: the end of the journal is beyond what still runs",
        f"{_SQL}/journal.sql",
        "       pg_snapshot_xmin(pg_current_snapshot())::text::bigint;",
        "       pg_snapshot_xmax(pg_current_snapshot())::text::bigint;",
        f"{_TESTS}/test_journal.py",
    ),
    Mutant(
        "postgres: the journal of another server is never told from ours",
        f"{_SQL}/queue.sql",
        "era = e.era + (moment.foreign_journal)::int",
        "era = e.era",
        f"{_TESTS}/test_journal.py",
    ),
    Mutant(
        "postgres: nobody looks from the beginning of a line",
        _HINTS,
        "if self._full_cost <= CHEAP or self._is_due(now, IDLE_SHARE):",
        "if self._full_cost < 0:",
        f"{_TESTS}/test_order.py",
    ),
    Mutant(
        "postgres: every claim reads its line from the beginning",
        _HINTS,
        "known = START if lane == ODD else bounds.get((line, lane), START)",
        "known = START",
        f"{_TESTS}/test_order.py",
    ),
    Mutant(
        "postgres: a job that came to stand before the hint is passed over",
        _HINTS,
        "if place < bounds.get((line, lane), START):",
        "if place < START:",
        f"{_TESTS}/test_order.py",
    ),
    Mutant(
        "postgres: jobs of a claim that was rolled back are passed over",
        _PICKING,
        "        self._tx.committed.append(lambda: hints.took(look, last))\n",
        "        hints.took(look, last)\n",
        f"{_TESTS}/test_order.py",
    ),
    Mutant(
        "postgres: a deadlock is told to the caller",
        f"{_STORE}/errors.py",
        '"40001", "40P01"',
        '"40001"',
        f"{_TESTS}/test_races.py",
    ),
    Mutant(
        "postgres: a server that starts up is taken for an unknown database",
        f"{_STORE}/errors.py",
        """('database "', _BY_CODE["3D000"])""",
        """('database ', _BY_CODE["3D000"])""",
        f"{_TESTS}/test_errors.py",
    ),
    Mutant(
        "postgres: plans are made as the server likes",
        f"{_STORE}/connections.py",
        '    "enable_seqscan": "off",\n',
        "",
        f"{_TESTS}/test_plans.py",
    ),
    Mutant(
        "postgres: a job at rest is found by the wrong index",
        f"{_STORE}/migrations/0001_start.sql",
        "ALTER TABLE ackline.rest ADD PRIMARY KEY (job);\n",
        "ALTER TABLE ackline.rest ADD PRIMARY KEY (job);\n"
        "DROP INDEX ackline.rest_line;\n"
        "CREATE INDEX rest_line ON ackline.rest (queue, state, at, job);\n",
        f"{_TESTS}/test_plans.py",
    ),
    Mutant(
        "postgres: new jobs are inserted in the order in which they come",
        f"{_STORE}/migrations/0001_start.sql",
        "g.now, g.options, g.payload\n        FROM given g ORDER BY g.id\n",
        "g.now, g.options, g.payload\n        FROM given g\n",
        f"{_TESTS}/test_enqueue_waits.py",
    ),
    Mutant(
        "postgres: a ring of producers is an error",
        f"{_STORE}/engine.py",
        "            if error.sqlstate in AGAIN:\n                raise Again from error\n",
        "",
        f"{_TESTS}/test_enqueue_waits.py",
    ),
    Mutant(
        "postgres: producers may have all connections",
        f"{_STORE}/connections.py",
        "max(1, places - KEPT)",
        "places",
        f"{_TESTS}/test_enqueue_waits.py",
    ),
    Mutant(
        "postgres: somebody waits for a lock for ever",
        f"{_STORE}/connections.py",
        "str(max(1, round(address.timeout * 1000)))",
        '"0"',
        f"{_TESTS}/test_enqueue_waits.py",
    ),
    Mutant(
        "postgres: a session that has ended is handed out",
        f"{_STORE}/connections.py",
        "connection.age() <= OLDEST and connection.is_quiet()",
        "connection.age() <= OLDEST",
        f"{_TESTS}/test_connections.py",
    ),
    Mutant(
        "postgres: a busy connection never grows old",
        f"{_STORE}/connections.py",
        "connection.age() <= OLDEST and connection.is_quiet()",
        "connection.is_quiet()",
        f"{_TESTS}/test_connections.py",
    ),
    Mutant(
        "postgres: news that come with an answer are swallowed",
        f"{_STORE}/hearing.py",
        "            message = self._heard.popleft()\n",
        "            message = self._heard.popleft()\n            self._heard.clear()\n",
        f"{_TESTS}/test_hearing.py",
    ),
    Mutant(
        "postgres: who comes back too early is never told again",
        f"{_STORE}/hearing.py",
        "            self._arm_again(connection, subject)\n",
        "",
        f"{_TESTS}/test_hearing.py",
    ),
    Mutant(
        "postgres: who hears of a queue no more makes others deaf to it",
        f"{_STORE}/news.py",
        "if shared := armed.intersection(subjects):",
        "if shared := armed.difference(armed):",
        "tests/conformance/test_postgres.py",
    ),
    Mutant(
        "postgres: a wake-up that fails is a failed write",
        f"{_STORE}/engine.py",
        "                    exchange.conclude()\n",
        "",
        f"{_TESTS}/test_hearing.py",
    ),
    Mutant(
        "postgres: a failed write is taken for a wake-up that failed",
        f"{_STORE}/exchange.py",
        "if failure is None and number > self._needed:",
        "if self._needed < math.inf:",
        f"{_TESTS}/test_hearing.py",
    ),
    Mutant(
        "postgres: a child believes that its parent's news are its own",
        f"{_STORE}/hearing.py",
        "return self._stands and self.here",
        "return self._stands",
        f"{_TESTS}/test_fork.py",
    ),
    Mutant(
        "postgres: a parent waits for its children to close",
        f"{_STORE}/hearing.py",
        '                os.write(self._waker, b"!")\n',
        "                os.dup2(os.open(os.devnull, os.O_WRONLY), self._waker)\n",
        f"{_TESTS}/test_fork.py",
    ),
    Mutant(
        "postgres: a full group is put aside in one go",
        _TAKING,
        "            if max(self._parked, self._left_there) >= MOST_PARKED:\n"
        "                break\n",
        "",
        f"{_TESTS}/test_parking.py",
    ),
    Mutant(
        "postgres: a default isolation of the user's is ours as well",
        f"{_STORE}/engine.py",
        '            exchange.send("begin_write")\n            exchange.send(name, values)\n',
        '            exchange.send("begin_read")\n            exchange.send("rollback")\n'
        "            exchange.send(name, values)\n",
        f"{_TESTS}/test_connections.py",
    ),
]
"""Seen only with several sessions, after a restore, or in large tables."""
