"""The scripts, one typed method for each.

Only here it is known in which order a script takes its keys and arguments, and what it returns.
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
"""How often a queue is made again that others drop before it can be used."""

QUEUES_PER_CALL = 500
"""For how many queues one script notes that somebody waits."""

_VERSION = struct.Struct(">Q")

Run = Callable[[str, Sequence[str], Iterable[Argument]], Any]


class ApplyAnswer(NamedTuple):
    """What became of steps."""

    codes: list[int]
    """A verdict for each; none if the queue does not exist."""
    ends: list[Any]
    """For refused ones, how the job's last lease ended (see `decode_last_leases`)."""


class ClaimAnswer(NamedTuple):
    """What a claim brought."""

    now: float
    token: int
    next_at: float | None
    applied: ApplyAnswer
    jobs: list[bytes]
    """Flat: id, body."""
    redelivered: list[int]
    """Flat, of those that a worker has had before: index, attempts, flags."""
    lapsed: list[FoundJob]
    undelivered: bytes
    """The job that was delivered but did not arrive, see `direct_delivery`."""


class FoundJobs(NamedTuple):
    """Jobs that were looked at."""

    now: float
    jobs: list[FoundJob]
    more: bool
    """Whether it has stopped early because of the size of the jobs."""


class Scripts:
    """Runs the scripts by the server's clock, or by a clock given for tests."""

    def __init__(self, connection: Connection, names: KeyNames, clock: Clock | None) -> None:
        self.connection = connection
        self.names = names
        self._clock = clock

    # --- jobs in, out and through ---

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], writes: Sequence[KeyWrite], token_jump: int
    ) -> tuple[str, list[bytes | None]]:
        """Insert jobs; a letter for each draft, and the results of those completed already."""
        distinct = len({draft.id for draft in drafts}) == len(drafts)
        beside = self.names.queue_keys_base(queue)
        arguments: list[Argument] = [int(distinct), token_jump, beside, len(writes)]
        arguments += pack_writes(writes)
        arguments += pack_drafts(drafts)
        letters, results = self._change("enqueue", queue, arguments)
        return letters.decode(), results

    def claim(
        self, queue: QueueKey, request: bytes, transitions: Sequence[Transition]
    ) -> ClaimAnswer:
        """Apply steps, and lease the next jobs in line."""
        answer = self._run("claim", queue, [request, *self._pack(queue, transitions)])
        now, token, next_at, runs, ends, jobs, again, lapsed, undelivered = answer
        return ClaimAnswer(
            float(now),
            int(token) if token else 0,
            float(next_at) if next_at else None,
            ApplyAnswer(expand_runs(runs), ends),
            jobs,
            again,
            decode_jobs(lapsed) if lapsed else [],
            undelivered,
        )

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> ApplyAnswer:
        """Apply steps, each if its guard holds."""
        runs, ends = self._change("apply", queue, self._pack(queue, transitions))
        return ApplyAnswer(expand_runs(runs), ends)

    def heartbeat(
        self, queue: QueueKey, worker: str, beat: bytes, ttl: float, holds: Sequence[LeaseExtension]
    ) -> tuple[list[int], list[int]]:
        """Extend leases; the indexes of those that are lost, and of those asked to stop."""
        arguments: list[Argument] = [worker, beat, repr(ttl)]
        for hold in holds:
            arguments += (hold.id, hold.token, repr(hold.seconds))
        lost, cancelled = self._make_and_run(self.connection.run, "heartbeat", queue, arguments)
        return lost, cancelled

    def promote(self, queue: QueueKey, limit: int) -> int:
        """Queue due jobs; returns how many."""
        return int(self._run("promote", queue, [limit]))

    def _pack(self, queue: QueueKey, transitions: Sequence[Transition]) -> Iterable[Argument]:
        return TransitionEncoder(self.names, queue).pack(transitions)

    # --- moves between the slots of a cluster ---

    def move_out(self, queue: QueueKey, transition: Transition, *, taken: bool) -> int:
        """Take a job out of its line; with `taken`, its id is not free in the other queue."""
        step = TransitionEncoder(self.names, queue).pack_move(transition, taken)
        return int(self._change("move_out", queue, [transition.id, step]))

    def move_in(self, queue: QueueKey, id: str, away: bytes, move: str, *, back: bool) -> bool:
        """Put a job in line that has left another queue; False if its id is taken."""
        direction = "back" if back else "forward"
        return bool(self._change("move_in", queue, [id, away, move, direction]))

    def move_done(self, queue: QueueKey, id: str, away: bytes) -> None:
        """Drop what was kept of a job that has arrived."""
        self._change("move_done", queue, [id, away])

    def move_forget(self, queue: QueueKey, move: str) -> None:
        """Let the answer of a move that is over be forgotten some day."""
        self._change("move_forget", queue, [move])

    # --- looking ---

    def get(self, queue: QueueKey, ids: Sequence[str | bytes], max_bytes: int | None) -> FoundJobs:
        """The jobs of these ids that there are."""
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
        """Jobs of one state, in the order of their line."""
        behind: tuple[Argument, Argument] = ("", "")
        if math.isfinite(after[0]):
            behind = repr(after[0]), after[1]
        order = "newest" if newest_first else ""
        arguments = [STATE_CODES[state], *behind, limit, order, _byte_limit(max_bytes)]
        now, flat, more = self._run("page", queue, arguments)
        return FoundJobs(float(now), decode_jobs(flat), bool(more))

    def lapsed(self, queue: QueueKey, limit: int) -> list[FoundJob]:
        """The leased jobs that have lapsed."""
        return self._leases(queue, [limit])

    def leased_by(
        self, queue: QueueKey, worker: str, limit: int, members: Sequence[bytes]
    ) -> list[FoundJob]:
        """Of these members of the line of leased jobs, those that one worker holds."""
        return self._leases(queue, [limit, worker, *members])

    def _leases(self, queue: QueueKey, arguments: Sequence[Argument]) -> list[FoundJob]:
        return decode_jobs(self._run("leases", queue, arguments))

    # --- operating ---

    def configure(
        self, queue: QueueKey, settings: QueueSettings, kept: bytes, act: Act, by: str
    ) -> int:
        """Replace settings that are still as they were `kept`; the answer is the script's."""
        return int(self._change("configure", queue, [kept, act, by, *settings_fields(settings)]))

    def unpark_groups(self, queue: QueueKey, groups: Sequence[bytes]) -> None:
        """Let jobs into line that these groups hold back."""
        self._run("unpark_groups", queue, groups)

    def prune(
        self,
        queue: QueueKey,
        limit: int,
        *,
        too_old: int,
        needed: tuple[Argument, Argument],
        most: int,
        forget_before: float,
    ) -> PruneResult:
        """Drop terminal jobs and journal batches past their time, and workers long gone."""
        arguments = [limit, too_old, *needed, most, repr(forget_before)]
        jobs, more, unseen = self._run("prune", queue, arguments)
        return PruneResult(jobs, unseen, bool(more))

    def purge(
        self, queue: QueueKey, by: str, states: Iterable[State], jobs: Iterable[tuple[int, str]]
    ) -> int:
        """Delete jobs of these numbers and ids; returns how many."""
        arguments: list[Argument] = [by, "".join(str(STATE_CODES[state]) for state in states)]
        for number, id in jobs:
            arguments += (id, number)
        return int(self._change("purge", queue, arguments))

    def drop(self, queue: QueueKey, by: str) -> bool:
        """Forget an empty queue; False if it holds jobs."""
        return bool(self._change("drop", queue, [by]))

    def create_queue(self, queue: QueueKey) -> None:
        """Make a queue, unless it is there."""
        with self.connection.translate_errors:
            # The registry first: a queue that is not in it would be found by nobody.
            self.connection.client.setnx(self.names.schema, SCHEMA)
            self.connection.client.sadd(self.names.registry, self.names.entry(queue))
        self._run("create_queue", queue, new_queue_fields(self.names.queue_mark(queue)))

    def request_wakeups(self, queues: Sequence[QueueKey]) -> None:
        """Note for each of the queues that exist that somebody waits for its jobs."""
        at_once = 1 if self.names.clustered else QUEUES_PER_CALL  # a script reaches only one slot
        for start in range(0, len(queues), at_once):
            first, *others = queues[start : start + at_once]
            keys = [self.names.base(first), self.names.counters(first)]
            keys += [self.names.base(queue) for queue in others]
            self.connection.run("request_wakeups", keys, (self._now(),))

    # --- the small key-value room ---

    def read_keys(
        self,
        room: str,
        prefix: tuple[str, ...],
        after: tuple[str, ...] | None,
        limit: int,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        """The keys of a room that start with `prefix` and come after the key `after`."""
        arguments = [*key_range(prefix, after), limit, _byte_limit(max_bytes)]
        flat = self.connection.run("read_keys", [room], arguments)
        return [
            KeyValue(
                key=decode_key(flat[index]),
                value=flat[index + 1][_VERSION.size :],
                version=_VERSION.unpack_from(flat[index + 1])[0],
            )
            for index in range(0, len(flat), 2)
        ]

    def write_keys(self, room: str, writes: Sequence[KeyWrite], *, even_if_full: bool) -> bool:
        """Apply all writes to a room, or none; with `even_if_full`, also if no memory is left."""
        arguments = ["even_if_full" if even_if_full else "", *pack_writes(writes)]
        return bool(self.connection.run_durably("write_keys", [room], arguments))

    # --- running ---

    def _run(self, name: str, queue: QueueKey, arguments: Iterable[Argument] = ()) -> Any:
        """Run a script that reads, or whose changes need not be waited for."""
        return self._run_by(self.connection.run, name, queue, arguments)

    def _change(self, name: str, queue: QueueKey, arguments: Iterable[Argument]) -> Any:
        """Run a script that changes something, and wait until it is safe; makes a missing queue."""
        return self._make_and_run(self.connection.run_durably, name, queue, [*arguments])

    def _make_and_run(
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
            f"queue {queue} was dropped again and again, {CREATE_ATTEMPTS} times; nothing was "
            f"changed"
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
        """The time for a script; empty for the server's own."""
        return "" if self._clock is None else repr(self._clock.now())


@functools.lru_cache(maxsize=4096)
def _keys(names: KeyNames, queue: QueueKey) -> tuple[str, str, str]:
    return names.base(queue), names.counters(queue), names.undelivered_keys_base(queue)


def _byte_limit(max_bytes: int | None) -> Argument:
    """After how many bytes to stop, for a script; empty for no limit."""
    most = ByteLimit(max_bytes).remaining
    return "" if most is None else most


def _has_code(error: StoreError, word: str) -> bool:
    cause = error.__cause__
    return isinstance(cause, ResponseError) and str(cause).startswith(word)
