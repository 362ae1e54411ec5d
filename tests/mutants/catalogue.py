"""Faults made by hand, each one that a real queue has had or could have."""

from __future__ import annotations

from typing import Literal, NamedTuple

Store = Literal["memory", "sqlite"]
MODEL = "test_random_histories_do_not_differ_from_the_reference"


class Mutant(NamedTuple):
    """A change of one place in the source that must make a test fail."""

    name: str
    path: str
    """Below src/ackline."""
    find: str
    replace: str

    @property
    def store(self) -> Store:
        """Which store shows it; the rules are the same for all, so memory will do."""
        return "sqlite" if "sqlite" in self.path else "memory"

    @property
    def stages(self) -> list[list[str]]:
        """The tests that it has to pass, those most likely to kill it first."""
        conformance = [f"tests/conformance/test_{self.store}.py"]
        model = [f"tests/conformance/test_model.py::{MODEL}[{self.store}]"]
        core = ["tests/core"]
        if self.store == "sqlite":
            return [conformance, model]
        stages = [conformance, [*core, *model]]
        in_a_store = self.path.startswith("stores") or self.path == _LIFECYCLE
        return stages if in_a_store else stages[::-1]


_LIFECYCLE = "lifecycle.py"
_APPLY = "stores/memory/apply.py"
_JOBS = "stores/memory/jobs.py"
_LINES = "stores/memory/lines.py"
_OPERATING = "stores/memory/operating.py"
_LOOKING = "stores/memory/looking.py"
_ROOM = "stores/memory/room.py"

RULES = [
    Mutant(
        "the fence is not checked",
        _LIFECYCLE,
        "if state is not State.PROCESSING or transition.token != token:",
        "if state is not State.PROCESSING:",
    ),
    Mutant(
        "an act without a token passes the fence",
        _LIFECYCLE,
        "    elif transition.act in FENCED:\n        return False\n",
        "",
    ),
    Mutant(
        "a sweep does not look at the deadline it saw",
        _LIFECYCLE,
        "if transition.deadline is not None and transition.deadline != deadline:",
        "if transition.deadline is not None and deadline is None:",
    ),
    Mutant(
        "extend revives a lapsed lease",
        _LIFECYCLE,
        "deadline is not None and deadline <= now:",
        "deadline is not None and deadline <= 0:",
    ),
    Mutant(
        "a crash costs no attempt",
        _LIFECYCLE,
        "        deadline=job.deadline,\n        keep=keep,",
        "        deadline=job.deadline,\n        attempts=job.attempts - 1,\n        keep=keep,",
    ),
    Mutant(
        "a poison job is never dead-lettered",
        _LIFECYCLE,
        "    elif job.attempts >= policy.max_attempts:\n        to, keep, keys",
        "    elif job.attempts > 10**9:\n        to, keep, keys",
    ),
    Mutant(
        "one attempt too many",
        _LIFECYCLE,
        "    if job.attempts >= policy.max_attempts:\n        return bury",
        "    if job.attempts > policy.max_attempts:\n        return bury",
    ),
    Mutant(
        "redrive keeps the attempts",
        _LIFECYCLE,
        "delay=delay, attempts=0, by",
        "delay=delay, by",
    ),
    Mutant(
        "a running job can be cancelled without its token",
        _LIFECYCLE,
        "elif state is State.PROCESSING and transition.act is Act.CANCEL:",
        "elif state is None and transition.act is Act.CANCEL:",
    ),
    Mutant(
        "another result is taken for a repeat",
        _LIFECYCLE,
        "(transition.act is not Act.COMPLETE or transition.result == result)",
        "True",
    ),
    Mutant(
        "a repeat is known only until the next claim",
        _LIFECYCLE,
        "    return any(\n        ended.token == transition.token",
        "    return last_token == transition.token and any(\n"
        "        ended.token == transition.token",
    ),
    Mutant(
        "a burial is taken for the repeat of a retry",
        _LIFECYCLE,
        '        and ended.to in ("", transition.to)\n',
        "",
    ),
    Mutant(
        "release does not give the attempt back",
        _LIFECYCLE,
        "        attempts=job.attempts - 1,\n        note=storable(note),",
        "        attempts=job.attempts,\n        note=storable(note),",
    ),
    Mutant(
        "a job that was asked to stop runs again",
        _LIFECYCLE,
        "if cancel_requested and transition.to in _UNDONE:",
        "if False:",
    ),
    Mutant(
        "a job that was asked to stop is dead-lettered",
        _LIFECYCLE,
        "_UNDONE = WAITING | {State.FAILED}",
        "_UNDONE = WAITING",
    ),
    Mutant(
        "keys-if-undelivered are written for a cancelled job",
        _LIFECYCLE,
        "return transition.keys if landed is State.FAILED else ()",
        "return transition.keys",
    ),
    Mutant(
        "a job that is cancelled while it is swept vanishes",
        _LIFECYCLE,
        "to, keep = State.QUEUED, policy.keep_cancelled",
        "to, keep = State.QUEUED, 0.0",
    ),
    Mutant(
        "a job moves to another tenant",
        _LIFECYCLE,
        "return source.tenant == target.tenant and source.name != target.name",
        "return source.name != target.name",
    ),
    Mutant(
        "keys-if-undelivered are forgotten when a lease expires",
        _LIFECYCLE,
        "policy.keep_failed, job.options.keys_if_undelivered\n    return",
        "policy.keep_failed, ()\n    return",
    ),
    Mutant(
        "priorities are upside down",
        _LIFECYCLE,
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
        "return _narrow(wider, record.options)",
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
        _LIFECYCLE,
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
        "if which.matches(job.record(history=False))]",
        "if which]",
    ),
    Mutant(
        "scheduled jobs are pruned",
        _OPERATING,
        "    for state in filter(TERMINAL.__contains__, State):",
        "    for state in (*TERMINAL, State.SCHEDULED):",
    ),
    Mutant(
        "a journal cursor skips an entry",
        _LOOKING,
        "skip = used if batch.number == number else 0",
        "skip = used + 1 if batch.number == number and used else 0",
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
]

_SQL = "stores/sqlite/queries"

SQLITE = [
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
]

ALL = [*RULES, *MEMORY, *SQLITE]
QUICK = [RULES[0], MEMORY[0], MEMORY[3]]
"""The control in every run: three that must die."""
