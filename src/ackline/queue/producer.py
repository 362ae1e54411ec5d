"""Putting jobs into a queue, and waiting for what becomes of them."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypedDict, TypeVar, Unpack, cast

import msgspec

from ackline import tracing
from ackline.errors import InvalidOption
from ackline.ids import new_id
from ackline.job import NO_OPTIONS, Draft, Options, State, as_read_back
from ackline.limits import (
    DEFAULT_PRIORITY,
    require_name,
    require_others_key,
    require_priority,
    require_seconds,
)
from ackline.queue.base import P, QueueBase, R
from ackline.queue.chunks import in_chunks, is_full, payload_size
from ackline.queue.handlers import DEFAULT_KIND
from ackline.queue.joining import within
from ackline.queue.waiting import ResultWaiter
from ackline.retry import Backoff, backoff_from
from ackline.stores.base import Joined, Receipt

T = TypeVar("T")

LATEST = 1e11
"""Seconds since 1970: beyond it a `run_at` is rather one in milliseconds."""

SHORTEST_SEEN = 1.0
"""Seconds that a result must be kept if somebody waits for it."""


class CallOptions(TypedDict, total=False):
    """What can be said about a job whose result is waited for."""

    id: str
    kind: str
    priority: int
    delay: float
    run_at: float | datetime.datetime
    max_attempts: int
    backoff: Backoff | Sequence[float] | float
    lease: float
    result_ttl: float
    keys_if_undelivered: Iterable[Sequence[str]]
    callback_url: str
    group: str
    headers: Mapping[str, str]
    trace: str


class EnqueueOptions(CallOptions, total=False):
    """All that can be said about one job."""

    timeout: float


class NewJob(Generic[T]):
    """A payload with options of its own, for `enqueue_many`.

    >>> queue.enqueue_many([NewJob({"to": "a"}, id="a", priority=9)])  # doctest: +SKIP
    """

    def __init__(self, payload: T, **options: Unpack[EnqueueOptions]) -> None:
        self.payload = payload
        self.options = options


class Queued(msgspec.Struct, frozen=True):
    """Accepted: the job is stored and will run."""

    id: str
    state: State = State.QUEUED


class Duplicate(msgspec.Struct, frozen=True):
    """A job of this id is alive already; nothing was stored."""

    id: str
    state: State


class Completed(msgspec.Struct, frozen=True):
    """A job of this id has completed already; this is its result."""

    id: str
    result: Any
    state: State = State.COMPLETED


Enqueued = Queued | Duplicate | Completed


class Producer(QueueBase[P, R]):
    """The producing side of a queue."""

    def enqueue(
        self, payload: P, *, connection: object | None = None, **options: Unpack[EnqueueOptions]
    ) -> Enqueued:
        """Store a job; when this returns, it is as safe as the store makes it.

        With a `connection`, in the transaction that you have open on it: the job is there when
        you commit, and never was if you roll back.

        >>> queue.enqueue({"to": "a@example.com"}, id="email-123")  # doctest: +SKIP
        """
        draft = self.draft(payload, options)
        with within(self.store, connection) as store:
            return self.answer(self.put([draft], store)[0])

    def enqueue_many(
        self,
        jobs: Iterable[P | NewJob[P]],
        *,
        connection: object | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> list[Enqueued]:
        """Store many jobs, a thousand in one step; options hold for all unless a job has its own.

        Large payloads go in steps of about 8 MiB. A refused payload or option raises before its
        step is stored. With a `connection`, all is in the transaction that you have open on it.
        """
        with within(self.store, connection) as store:
            return [self.answer(receipt) for receipt in self.enqueue_chunks(jobs, options, store)]

    def enqueue_chunks(
        self, jobs: Iterable[P | NewJob[P]], options: EnqueueOptions, store: Joined | None = None
    ) -> Iterator[Receipt]:
        """Store chunk by chunk as the jobs come; a chunk is made while the last one is stored."""
        store = store or self.store
        if "id" in options:
            raise InvalidOption("one id cannot serve many jobs: give each its own by NewJob")
        if isinstance(jobs, (str, bytes, Mapping)):
            raise InvalidOption(f"enqueue_many takes a list of payloads, not {type(jobs).__name__}")
        drafts = (self._draft_of_many(job, options) for job in jobs)
        chunks = in_chunks(drafts, payload_size)
        if store is self.store:
            return store_meanwhile(self.put, chunks)
        # In its caller's thread, whose transaction it is.
        return itertools.chain.from_iterable(self.put(chunk, store) for chunk in chunks)

    def enqueue_and_wait(
        self, payload: P, *, timeout: float = 30.0, **options: Unpack[CallOptions]
    ) -> R:
        """Enqueue, then wait for the result, as a call to a function elsewhere.

        Joins a job of the same id that is under way, and returns at once if it has
        completed. `Timeout` does not cancel the job: it may still finish. The result has to be
        kept long enough to be seen: a `result_ttl` below one second is refused, and one that
        its kind or queue sets so low leads to `JobNotFound`.

        >>> queue.enqueue_and_wait({"url": "…"}, id="img-1", timeout=30)  # doctest: +SKIP
        """
        draft = self.awaited_draft(payload, options)
        waiter = self.waiter  # it listens before the job can finish
        heard = waiter.heard
        answer = self.answer(self.put([draft])[0])
        if isinstance(answer, Completed):
            result: R = answer.result
            return result
        # Not before: a look would find the failed job of this id that the new one replaces.
        with waiter.expect(draft.id, heard) as expected:
            return self.outcome_of(expected.wait(timeout))

    def result(self, id: str, timeout: float = 0.0) -> R:
        """The result of a job, waiting up to `timeout` seconds for it.

        Raises `JobNotFound`, `JobFailed`, `JobCancelled`, or `Timeout` if it is not finished.
        """
        with self.waiter.expect(id) as expected:
            return self.outcome_of(expected.wait(timeout, now=True))

    @property
    def waiter(self) -> ResultWaiter:
        """Waits for all results that this process expects of this queue."""
        with self._lock:
            if self._waiter is None or not self._waiter.alive:
                self._waiter = ResultWaiter(self.store, self.key)
            return self._waiter

    _waiter: ResultWaiter | None = None

    def close(self) -> None:
        """Stop waiting for results, and calling back for events."""
        super().close()
        with self._lock:
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.close()

    # --- from what the caller wrote to a draft ---

    def draft(self, payload: Any, options: CallOptions) -> Draft:
        """Check and encode one job."""
        if unknown := options.keys() - _KNOWN:
            raise TypeError(f"unknown job option: {', '.join(sorted(unknown))}")
        if None in options.values():
            # As if they were not given, so that callers can pass on what they may not have.
            given = {name: value for name, value in options.items() if value is not None}
            options = cast(CallOptions, given)
        id = options.get("id")
        if id is None:
            id, surely_new = new_id(), True
        else:
            require_name("id", id)
            surely_new = False
        kind = options.get("kind", DEFAULT_KIND)
        require_name("kind", kind)
        priority = options.get("priority", DEFAULT_PRIORITY)
        require_priority(priority)
        delay = options.get("delay", 0.0)
        require_seconds("delay", delay)
        return Draft(
            id,
            kind,
            self.encode_payload(payload),
            priority,
            delay,
            _run_at(options),
            self._options(options),
            surely_new,
        )

    def awaited_draft(self, payload: Any, options: CallOptions) -> Draft:
        """Check and encode a job whose result is waited for."""
        draft = self.draft(payload, options)
        ttl = draft.options.result_ttl
        if ttl is not None and ttl < SHORTEST_SEEN:
            raise InvalidOption(
                f"result_ttl must be at least {SHORTEST_SEEN:g} s when waiting for the result, "
                f"not {ttl:g}"
            )
        return draft

    def _draft_of_many(self, job: Any, shared: EnqueueOptions) -> Draft:
        if not isinstance(job, NewJob):
            return self.draft(job, shared)
        options: EnqueueOptions = {**shared, **job.options} if shared else job.options
        draft = self.draft(job.payload, options)
        if draft.surely_new or not self._dedup.add(draft.id):
            return draft
        return msgspec.structs.replace(draft, surely_new=True)

    def _options(self, options: CallOptions) -> Options:
        trace = options.get("trace") or tracing.current()
        if not options and trace is None and self.payload_serde.name == "json":
            return NO_OPTIONS
        said: dict[str, Any] = {name: options[name] for name in _STORED if name in options}  # type: ignore[literal-required]
        if "backoff" in said:
            said["backoff"] = backoff_from(said["backoff"])
        if "keys_if_undelivered" in said:
            keys = list(said["keys_if_undelivered"])
            if isinstance(said["keys_if_undelivered"], str) or any(
                isinstance(k, str) for k in keys
            ):
                raise InvalidOption("keys_if_undelivered is a list of keys, each a list of texts")
            said["keys_if_undelivered"] = tuple(map(tuple, keys))
        if self.payload_serde.name != "json":
            said["codec"] = self.payload_serde.name
        if trace is not None:
            said["trace"] = trace
        return _checked(said) if said else NO_OPTIONS

    def answer(self, receipt: Receipt) -> Enqueued:
        """A store's receipt as users read it."""
        if receipt.accepted:
            return Queued(receipt.id, receipt.state)
        if receipt.state is State.COMPLETED:
            return Completed(receipt.id, self.decode_result(receipt.result))
        return Duplicate(receipt.id, receipt.state)


_STORED = frozenset(Options.__struct_fields__) - {"codec"}
_KNOWN = frozenset(EnqueueOptions.__annotations__)


def _checked(said: dict[str, Any]) -> Options:
    options = as_read_back(said, Options)
    for key in options.keys_if_undelivered:
        require_others_key(key)
    return options


def _run_at(options: CallOptions) -> float | None:
    moment = options.get("run_at")
    if moment is None:
        return None
    if "delay" in options:
        raise InvalidOption("a job has a delay or a run_at, not both")
    seconds: Any = moment
    if isinstance(moment, datetime.datetime):
        if moment.tzinfo is None:
            raise InvalidOption(f"run_at must be timezone-aware, and {moment} is not")
        seconds = moment.timestamp()
    if type(seconds) not in (int, float) or not 0 <= seconds < LATEST:
        raise InvalidOption(
            "run_at must be a datetime or seconds since 1970, and lie between the years 1970 and "
            f"5138, not {moment!r}"
        )
    return float(seconds)


def store_meanwhile(
    store: Callable[[list[Draft]], list[Receipt]], chunks: Iterator[list[Draft]]
) -> Iterator[Receipt]:
    """Store each chunk in another thread while the next one is made; one after the other."""
    with ThreadPoolExecutor(1, thread_name_prefix="ackline-bulk") as thread:
        under_way: Future[list[Receipt]] | None = None
        for chunk in chunks:
            if under_way is not None:
                yield from under_way.result()
            elif not is_full(chunk):
                # There is no other to be made meanwhile.
                yield from store(chunk)
                return
            under_way = thread.submit(store, chunk)
        if under_way is not None:
            yield from under_way.result()
