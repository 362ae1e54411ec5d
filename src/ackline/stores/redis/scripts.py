"""The scripts, with a typed method for each.

Only this module knows the order of their keys and arguments, and what they return.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from ackline.core.clock import Clock
from ackline.core.config import QueueSettings
from ackline.core.errors import KeysChanged, StoreError, StoreFull, StoreUnavailable
from ackline.core.events import Act
from ackline.core.job import Draft, QueueKey, State
from ackline.core.lifecycle import Transition
from ackline.stores.contract import KeyValue, KeyWrite, LeaseExtension
from ackline.stores.redis.encode_jobs import (
    FoundJob,
    decode_jobs,
    expand_runs,
    new_queue_fields,
    pack_drafts,
    pack_writes,
    settings_fields,
)
from ackline.stores.redis.encode_transitions import TransitionEncoder
from ackline.stores.redis.io.connection import Argument, Connection
from ackline.stores.redis.key_names import SCHEMA, KeyNames
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.key_encoding import decode_key, key_range
from ackline.stores.shared.record_encoding import STATE_CODES
from ackline.stores.shared.retention import PruneResult

NO_QUEUE, FULL, KEYS_CHANGED = "NOQUEUE", "FULL", "KEYSCHANGED"

CREATE_ATTEMPTS = 1000
"""How many times to create a queue that others keep dropping before it can be used."""

QUEUES_PER_CALL = 500
"""Queues for which one call of a script requests wake-ups."""

_VERSION = struct.Struct(">Q")

Run = Callable[[str, Sequence[str], Iterable[Argument]], Any]


class ApplyAnswer(NamedTuple):
    """The outcome of transitions."""

    codes: list[int]
    """A verdict for each; empty if the queue does not exist."""
    last_leases: list[Any]
    """How the last leases of refused jobs ended, see `decode_last_leases`."""


class ClaimAnswer(NamedTuple):
    """What a claim returned."""

    now: float
    token: int
    next_at: float | None
    applied: ApplyAnswer
    jobs: list[bytes]
    """Flat: id, body."""
    redelivered: list[int]
    """Flat, of the jobs that were leased before: index, attempts, flags."""
    lapsed: list[FoundJob]
    lost_delivery: bytes
    """The job that was delivered but did not arrive, see `direct_delivery`."""


class FoundJobs(NamedTuple):
    """Jobs that were read."""

    now: float
    jobs: list[FoundJob]
    more: bool
    """Whether there are more, which were left out because of their size."""


class Scripts:
    """Runs the scripts, by the server's clock or a test's clock."""

    def __init__(self, connection: Connection, names: KeyNames, clock: Clock | None) -> None:
        self.connection = connection
        self.names = names
        self._clock = clock

    # --- jobs ---

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], writes: Sequence[KeyWrite], token_jump: int
    ) -> tuple[str, list[bytes | None]]:
        """Insert jobs; a code for each draft, and the results of jobs that already completed."""
        distinct = len({draft.id for draft in drafts}) == len(drafts)
        base = self.names.queue_keys_base(queue)
        arguments: list[Argument] = [int(distinct), token_jump, base, len(writes)]
        arguments += pack_writes(writes)
        arguments += pack_drafts(drafts)
        codes, results = self._change("enqueue", queue, arguments)
        return codes.decode(), results

    def claim(
        self, queue: QueueKey, request: bytes, transitions: Sequence[Transition]
    ) -> ClaimAnswer:
        """Apply transitions, and lease the next queued jobs."""
        answer = self._run("claim", queue, [request, *self._pack(queue, transitions)])
        now, token, next_at, runs, last_leases, jobs, redelivered, lapsed, lost_delivery = answer
        return ClaimAnswer(
            float(now),
            int(token) if token else 0,
            float(next_at) if next_at else None,
            ApplyAnswer(expand_runs(runs), last_leases),
            jobs,
            redelivered,
            decode_jobs(lapsed) if lapsed else [],
            lost_delivery,
        )

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> ApplyAnswer:
        """Apply transitions, each if its guards hold."""
        runs, last_leases = self._change("apply", queue, self._pack(queue, transitions))
        return ApplyAnswer(expand_runs(runs), last_leases)

    def heartbeat(
        self,
        queue: QueueKey,
        worker: str,
        heartbeat: bytes,
        ttl: float,
        extensions: Sequence[LeaseExtension],
    ) -> tuple[list[int], list[int]]:
        """Extend leases; the indexes of lost leases, and of those with a cancel request."""
        arguments: list[Argument] = [worker, heartbeat, repr(ttl)]
        for extension in extensions:
            arguments += (extension.id, extension.token, repr(extension.seconds))
        lost, cancelled = self._create_and_run(self.connection.run, "heartbeat", queue, arguments)
        return lost, cancelled

    def promote(self, queue: QueueKey, limit: int) -> int:
        """Queue due jobs, and return how many."""
        return int(self._run("promote", queue, [limit]))

    def _pack(self, queue: QueueKey, transitions: Sequence[Transition]) -> Iterable[Argument]:
        return TransitionEncoder(self.names, queue).pack(transitions)

    # --- moves between slots of a cluster ---

    def move_out(self, queue: QueueKey, transition: Transition, *, id_taken: bool) -> int:
        """Take a job out of its queue; refused if its id is taken in the other queue."""
        encoded = TransitionEncoder(self.names, queue).pack_move(transition, id_taken)
        return int(self._change("move_out", queue, [transition.id, encoded]))

    def move_in(self, queue: QueueKey, id: str, moving: bytes, move: str, *, back: bool) -> bool:
        """Insert a job that has left another queue; False if its id is taken."""
        direction = "back" if back else "forward"
        return bool(self._change("move_in", queue, [id, moving, move, direction]))

    def move_done(self, queue: QueueKey, id: str, moving: bytes) -> None:
        """Delete what the source queue kept of a job that has arrived."""
        self._change("move_done", queue, [id, moving])

    def move_forget(self, queue: QueueKey, move: str) -> None:
        """Let pruning delete the outcome of a finished move."""
        self._change("move_forget", queue, [move])

    # --- queries ---

    def get(self, queue: QueueKey, ids: Sequence[str | bytes], max_bytes: int | None) -> FoundJobs:
        """The jobs that have these ids."""
        now, flat, more = self._run("get", queue, [_byte_limit(max_bytes), *ids])
        return FoundJobs(float(now), decode_jobs(flat), bool(more))

    def page(
        self,
        queue: QueueKey,
        state: State,
        after: tuple[float, int],
        limit: int,
        max_bytes: int,
        *,
        newest_first: bool,
    ) -> FoundJobs:
        """Jobs of one state, in the order of their list."""
        start: tuple[Argument, Argument] = ("", "")
        if math.isfinite(after[0]):
            start = repr(after[0]), after[1]
        order = "newest" if newest_first else ""
        arguments = [STATE_CODES[state], *start, limit, order, _byte_limit(max_bytes)]
        now, flat, more = self._run("page", queue, arguments)
        return FoundJobs(float(now), decode_jobs(flat), bool(more))

    def lapsed(self, queue: QueueKey, limit: int) -> list[FoundJob]:
        """Jobs whose lease has lapsed."""
        return self._leases(queue, [limit])

    def leased_by(
        self, queue: QueueKey, worker: str, limit: int, members: Sequence[bytes]
    ) -> list[FoundJob]:
        """Of these members of the list of leased jobs, those that one worker has leased."""
        return self._leases(queue, [limit, worker, *members])

    def _leases(self, queue: QueueKey, arguments: Sequence[Argument]) -> list[FoundJob]:
        return decode_jobs(self._run("leases", queue, arguments))

    # --- operations ---

    def configure(
        self, queue: QueueKey, settings: QueueSettings, expected: bytes, act: Act, by: str
    ) -> int:
        """Replace settings if they are still the expected ones; returns the script's answer."""
        fields = settings_fields(settings)
        return int(self._change("configure", queue, [expected, act, by, *fields]))

    def unpark_groups(self, queue: QueueKey, groups: Sequence[bytes]) -> None:
        """Unpark jobs of these groups."""
        self._run("unpark_groups", queue, groups)

    def prune(
        self,
        queue: QueueKey,
        limit: int,
        *,
        too_old: int,
        needed: tuple[Argument, Argument],
        max_events: int,
        dead_before: float,
    ) -> PruneResult:
        """Delete jobs and journal batches past their retention, and workers that died long ago."""
        arguments = [limit, too_old, *needed, max_events, repr(dead_before)]
        jobs, more, unread = self._run("prune", queue, arguments)
        return PruneResult(jobs, unread, bool(more))

    def purge(
        self, queue: QueueKey, by: str, states: Iterable[State], jobs: Iterable[tuple[int, str]]
    ) -> int:
        """Delete jobs by their numbers and ids, and return how many."""
        arguments: list[Argument] = [by, "".join(str(STATE_CODES[state]) for state in states)]
        for number, id in jobs:
            arguments += (id, number)
        return int(self._change("purge", queue, arguments))

    def drop(self, queue: QueueKey, by: str) -> bool:
        """Delete an empty queue; False if it has jobs."""
        return bool(self._change("drop", queue, [by]))

    def create_queue(self, queue: QueueKey) -> None:
        """Create a queue unless it exists."""
        with self.connection.translate_errors:
            # The registry first: nobody would find a queue that is not in it.
            self.connection.client.setnx(self.names.schema, SCHEMA)
            self.connection.client.sadd(self.names.registry, self.names.entry(queue))
        self._run("create_queue", queue, new_queue_fields(self.names.queue_mark(queue)))

    def request_wakeups(self, queues: Sequence[QueueKey]) -> None:
        """Record, for each of these queues that exists, that a worker waits for its jobs."""
        per_call = 1 if self.names.clustered else QUEUES_PER_CALL  # a script reaches only one slot
        for start in range(0, len(queues), per_call):
            first, *others = queues[start : start + per_call]
            keys = [self.names.base(first), self.names.counters(first)]
            keys += [self.names.base(queue) for queue in others]
            self.connection.run("request_wakeups", keys, (self._now(),))

    # --- key-value store ---

    def read_keys(
        self,
        base: str,
        prefix: tuple[str, ...],
        after: tuple[str, ...] | None,
        limit: int,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        """The keys under a base name that start with `prefix` and come after the key `after`."""
        arguments = [*key_range(prefix, after), limit, _byte_limit(max_bytes)]
        flat = self.connection.run("read_keys", [base], arguments)
        return [
            KeyValue(
                key=decode_key(flat[index]),
                value=flat[index + 1][_VERSION.size :],
                version=_VERSION.unpack_from(flat[index + 1])[0],
            )
            for index in range(0, len(flat), 2)
        ]

    def write_keys(self, base: str, writes: Sequence[KeyWrite], *, even_if_full: bool) -> bool:
        """Apply all writes, or none; with `even_if_full`, also if no memory is left."""
        arguments = ["even_if_full" if even_if_full else "", *pack_writes(writes)]
        return bool(self.connection.run_durably("write_keys", [base], arguments))

    # --- running ---

    def _run(self, name: str, queue: QueueKey, arguments: Iterable[Argument] = ()) -> Any:
        """Run a script that only reads, or whose changes need not be durable when it returns."""
        return self._run_by(self.connection.run, name, queue, arguments)

    def _change(self, name: str, queue: QueueKey, arguments: Iterable[Argument]) -> Any:
        """Run a script, create the queue if it is missing, and wait until the change is durable."""
        return self._create_and_run(self.connection.run_durably, name, queue, [*arguments])

    def _create_and_run(
        self, run: Run, name: str, queue: QueueKey, arguments: Sequence[Argument]
    ) -> Any:
        for _ in range(CREATE_ATTEMPTS):
            try:
                return self._run_by(run, name, queue, arguments)
            except StoreError as error:
                if not _has_code(error, NO_QUEUE):
                    raise
            self.create_queue(queue)
        raise StoreUnavailable(
            f"queue {queue} was dropped {CREATE_ATTEMPTS} times while it was being used; nothing "
            "was changed"
        )

    def _run_by(self, run: Run, name: str, queue: QueueKey, arguments: Iterable[Argument]) -> Any:
        try:
            return run(name, _keys(self.names, queue), (self._now(), *arguments))
        except StoreError as error:
            if _has_code(error, KEYS_CHANGED):
                raise KeysChanged(str(queue)) from None
            if _has_code(error, FULL):
                limit = str(error.__cause__).split()[1]
                raise StoreFull.of_queue(queue, int(limit)) from None
            raise

    def _now(self) -> str:
        """The time for a script; empty for the server's clock."""
        return "" if self._clock is None else repr(self._clock.now())


@functools.lru_cache(maxsize=4096)
def _keys(names: KeyNames, queue: QueueKey) -> tuple[str, str, str]:
    return names.base(queue), names.counters(queue), names.undelivered_keys_base(queue)


def _byte_limit(max_bytes: int | None) -> Argument:
    """The most bytes that a script returns; empty for no limit."""
    remaining = ByteLimit(max_bytes).remaining
    return "" if remaining is None else remaining


def _has_code(error: StoreError, code: str) -> bool:
    cause = error.__cause__
    return isinstance(cause, ResponseError) and str(cause).startswith(code)
