"""Mutants of handing jobs and results over to those who wait: they would be lost, or come twice."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TESTS = "tests/stores/redis"
_ALONE = f"{_TESTS}/test_handing_over.py"
_WORKERS = f"{_TESTS}/test_handed_to_workers.py"
_LUA = "stores/redis/scripts"
_HANDING = f"{_LUA}/lib/handing.lua"
_ENDS = f"{_TESTS}/test_told_ends.py"
_LISTEN = "stores/redis/listen.py"
_INBOX = "stores/redis/inbox.py"

HANDING = [
    Mutant(
        "redis: a job is handed to one who has gone",
        _HANDING,
        "listeners[2] > 0 and request",
        "listeners[2] >= 0 and request",
        _ALONE,
    ),
    Mutant(
        "redis: a job is handed to one who does not want its kind",
        _HANDING,
        "if not request or not wants_kind(request, kind) or",
        "if not request or",
        _ALONE,
    ),
    Mutant(
        "redis: what was handed over and lost is not brought by the next claim",
        _HANDING,
        "if sort ~= 'g' then",
        "if true then",
        _ALONE,
    ),
    Mutant(
        "redis: a claim brings a job that was handed over and went to another",
        _HANDING,
        "if not job or job.state ~= PROCESSING or job.token ~= token or",
        "if not job or",
        _ALONE,
    ),
    Mutant(
        "redis: who was handed a job still waits for one",
        _HANDING,
        "promise(queue, inbox, 'g', struct.pack(GIVEN, lease.token, #job.id, job.id) .. noted)",
        "promise(queue, inbox, 'w', cmsgpack.pack(request))",
        _ALONE,
    ),
    Mutant(
        "redis: a job that is handed over is not noted as claimed",
        _HANDING,
        "  note_job(queue, 'claim', QUEUED, PROCESSING, lease.token, request.worker, job.id, "
        "job.kind, 1)\n",
        "",
        _ALONE,
    ),
    Mutant(
        "redis: a job that is handed over counts as queued",
        _HANDING,
        "  shift(queue, QUEUED, PROCESSING, 1)\n",
        "",
        _ALONE,
    ),
    Mutant(
        "redis: the token of a job that is handed over is given out again",
        _HANDING,
        "  save_lease(queue, lease.token, false)\n",
        "",
        _ALONE,
    ),
    Mutant(
        "redis: who settles waits on though a job is in line",
        f"{_LUA}/settle.lua",
        "queue.topics.ready or not queue.idle",
        "queue.topics.ready",
        _ALONE,
    ),
    Mutant(
        "redis: who settles waits on though it has just put a job in line",
        f"{_LUA}/settle.lua",
        "queue.topics.ready or not queue.idle",
        "not queue.idle",
        _ALONE,
    ),
    Mutant(
        "redis: who settles waits on though it has not received what it was handed",
        _HANDING,
        "  if token ~= received then\n    return false\n  end\n",
        "",
        _ALONE,
    ),
    Mutant(
        "redis: who settles is told that it waits on, and does not",
        _HANDING,
        "  redis.call('HSET', queue.base .. ':waiting', inbox, string.sub(noted, before))\n",
        "",
        _ALONE,
    ),
    Mutant(
        "redis: inboxes are never forgotten",
        _HANDING,
        "    redis.call('EXPIRE', queue.base .. ':waiting', MEMORY)\n",
        "",
        _ALONE,
    ),
    Mutant(
        "redis: a job is handed over in a paused queue",
        f"{_LUA}/enqueue.lua",
        "queue.idle and not queue.paused and #runs == 1",
        "queue.idle and #runs == 1",
        _ALONE,
    ),
    Mutant(
        "redis: a job of a group is handed over",
        f"{_LUA}/enqueue.lua",
        " or ARGV[runs[1][1] + 2] ~= '' then",
        " then",
        _ALONE,
    ),
    Mutant(
        "redis: a job is handed over that others stand before",
        _HANDING,
        " or has_others(queue, request.kinds) then",
        " then",
        _ALONE,
    ),
    Mutant(
        "redis: what is on its way does not count for the claim",
        f"{_LUA}/claim.lua",
        "request.limit, request.places = request.limit - 1, request.places - 1",
        "request.places = request.places - 1",
        _ALONE,
    ),
    Mutant(
        "redis: who got enough still waits to be handed a job",
        f"{_LUA}/claim.lua",
        "  redis.call('HDEL', queue.base .. ':waiting', inbox)\nend\nlocal wanting",
        "end\nlocal wanting",
        _ALONE,
    ),
    Mutant(
        "redis: a job comes by message and again with a claim",
        _INBOX,
        "            if token in self._accepted:\n                return []\n",
        "",
        _ALONE,
    ),
    Mutant(
        "redis: a claim that fails loses what had arrived",
        "stores/redis/work.py",
        "        inbox.put_back(handed)\n",
        "        pass\n",
        _ALONE,
    ),
    Mutant(
        "redis: a lease that was handed over counts from when the worker looks",
        _INBOX,
        "return min(asked_at, *(self._began(job) for job in jobs))",
        "return asked_at",
        _ALONE,
    ),
    Mutant(
        "redis: jobs that end together are told as one",
        f"{_LUA}/lib/steps.lua",
        "  if total == 1 then\n    tell_end",
        "  if total > 0 then\n    tell_end",
        _ENDS,
    ),
    Mutant(
        "redis: jobs of several claims that end together are told as one",
        f"{_LUA}/lib/steps.lua",
        "total, id, result = total + count, last_id, last_result",
        "total, id, result = count, last_id, last_result",
        _ENDS,
    ),
    Mutant(
        "redis: news of an earlier job of an id answers for a later one",
        "queue/waiting.py",
        "                if not expected.only:\n                    return False\n",
        "",
        _ENDS,
    ),
    Mutant(
        "redis: news that says nothing is passed over",
        _LISTEN,
        'return None if not said or b"" in said else',
        "return None if not said else",
        _ENDS,
    ),
    Mutant(
        "redis: a worker that stops goes on waiting to be handed jobs",
        "worker/courier.py",
        "if not holdings.claiming and holdings.withdraw():",
        "if self._stopping and holdings.withdraw():",
        _WORKERS,
    ),
    Mutant(
        "redis: a worker with no free lane waits to be handed jobs",
        "worker/holdings.py",
        "places = max(0, self._concurrency - len(self.held) + settling)",
        "places = limit",
        _WORKERS,
    ),
    Mutant(
        "redis: a courier ends though a job may be on its way",
        "worker/courier.py",
        " or self._holdings.outbox or self._holdings.waiting:",
        " or self._holdings.outbox:",
        _WORKERS,
    ),
    Mutant(
        "redis: a job is handed to one who has been silent for long",
        _HANDING,
        "if since < now - SILENT then",
        "if false then",
        _ALONE,
    ),
    Mutant(
        "redis: a claim brings what was handed over and has lapsed",
        _HANDING,
        " or at_of(queue, job) <= now then",
        " then",
        _ALONE,
    ),
    Mutant(
        "redis: a lease too short to make up for a lost message is handed over",
        _HANDING,
        "if head.seconds < SHORTEST_HANDED then",
        "if false then",
        _ALONE,
    ),
    Mutant(
        "redis: a job is begun whose lease lapsed in the inbox",
        _INBOX,
        "if self._lapses(job) > time.monotonic()",
        "if True",
        _ALONE,
    ),
    Mutant(
        "redis: a clock that is set back costs a worker the job it was handed",
        _INBOX,
        "max(0.0, (job.started_at or 0.0) - there)",
        "((job.started_at or 0.0) - there)",
        _ALONE,
    ),
    Mutant(
        "redis: inboxes of the dead stay until somebody is handed a job",
        _HANDING,
        "    if since < now - MEMORY then",
        "    if false then",
        _ALONE,
    ),
    Mutant(
        "redis: an error in answer to a ping ends a listener",
        "stores/redis/listen.py",
        "if isinstance(message, Exception):",
        "if False:",
        f"{_TESTS}/test_listen.py",
    ),
    Mutant(
        "redis: a worker that is handed a job claims it first",
        "worker/courier.py",
        "                handed = self._holdings.handed()\n",
        "",
        _WORKERS,
    ),
    Mutant(
        "redis: an enqueue is torn when nobody may be asked for",
        _HANDING,
        "redis.pcall('PUBSUB'",
        "redis.call('PUBSUB'",
        _ALONE,
    ),
]
