"""Test modes: run a queue's handlers inline or on request, and assert which jobs exist."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast
from unittest import mock

import msgspec

from ackline.core.clock import Clock, ManualClock
from ackline.core.config import DEFAULTS
from ackline.core.job import Draft, QueueKey, Record, State
from ackline.core.outcome import RaisableOutcome
from ackline.queue import Handler, Job, Queue, StopReason
from ackline.queue.job import NO_RESOURCES
from ackline.queues import DEFAULT_TENANT, Queues
from ackline.stores.contract import ClaimRequest, KeyWrite, Receipt, Store
from ackline.stores.memory import MemoryStore
from ackline.worker.handler_outcome import HandlerTimeout, transition_for
from ackline.worker.hooks import NO_HOOKS, Hooks

MAX_RUNS = 10_000
"""A drain that runs more jobs than this is considered endless."""

MAX_DEPTH = 20
"""How deeply jobs run inside one another within `inline`; deeper ones run afterwards."""

_draining: contextvars.ContextVar[tuple[QueueKey, ...]] = contextvars.ContextVar(
    "ackline draining", default=()
)
"""The queues of the jobs that run inside one another."""

FAILURES = (Exception, asyncio.CancelledError, SystemExit)
"""Exceptions that fail a job. All others also end the test: Ctrl-C, `pytest.fail`."""

MAX_LISTED = 20
"""How many jobs a failed assertion lists."""


def memory_queues(clock: Clock | None = None, *, tenant: str = DEFAULT_TENANT) -> Queues:
    """Queues in a new, empty memory store, to be used in a `with` block or a fixture.

    >>> with memory_queues(ManualClock()) as queues:
    ...     queues["email"].enqueue({"to": "a"}, id="1")
    Queued(id='1', state=<State.QUEUED: 'queued'>)
    """
    return Queues(MemoryStore(clock), tenant)


class Runtime(msgspec.Struct, frozen=True):
    """What handlers run with: resources, and a function that runs a coroutine to its end."""

    resources: Mapping[str, Any]
    run: Callable[[Coroutine[Any, Any, Any]], Any]


GetRuntime = Callable[[], Runtime]
"""Makes it when the first job runs: a test that runs none opens no resources."""


class Drained(msgspec.Struct, frozen=True):
    """How many handlers ran, and the resulting states of their jobs."""

    runs: int
    states: Mapping[State, int]

    def __getitem__(self, state: State | str) -> int:
        return self.states.get(State(state), 0)


class TaskLike(Protocol):
    """A task of an app: all its jobs are of one kind."""

    @property
    def kind(self) -> str: ...

    @property
    def queue(self) -> Queue[Any, Any]: ...


class AsyncQueueLike(Protocol):
    """A queue for asyncio."""

    @property
    def sync(self) -> Queue[Any, Any]: ...


QueueLike = Queue[Any, Any] | AsyncQueueLike | TaskLike
"""What the functions of this module take: a queue, one for asyncio, or a task."""


def _queue_of(source: QueueLike) -> Queue[Any, Any]:
    if isinstance(source, Queue):
        return source
    sync = getattr(source, "sync", None)
    return sync if isinstance(sync, Queue) else cast(TaskLike, source).queue


def _kind_of(source: QueueLike, kind: str | None) -> str | None:
    """The kind to look for: that of a task, unless one is given."""
    if kind is None and not isinstance(source, Queue):
        return getattr(source, "kind", None)
    return kind


def drain(
    queue: QueueLike,
    *,
    until_idle: ManualClock | None = None,
    hooks: Hooks = NO_HOOKS,
    raise_errors: bool = False,
    runtime: GetRuntime | None = None,
) -> Drained:
    """Run all jobs that are due, one after the other, in the caller's thread.

    Retries and delayed jobs run when the clock says so. If `until_idle` is the store's clock,
    it is moved on to each next job that is due, until no job waits any more.

    >>> drain(queue)["completed"]  # doctest: +SKIP
    2
    """
    queue = _queue_of(queue)
    states: dict[State, int] = {}
    runs = 0
    while True:
        record = _claim(queue)
        if record is None:
            if until_idle is None or not advance_to_next([queue], until_idle):
                return Drained(runs, states)
            continue
        runs += 1
        if runs > MAX_RUNS:
            raise AssertionError(
                f"{queue} is still busy after {MAX_RUNS:,} runs: do its jobs enqueue each other?"
            )
        state, error = _run(queue, record, hooks, runtime() if runtime else DEFAULT_RUNTIME)
        if state is not None:
            states[state] = states.get(state, 0) + 1
        if raise_errors and error is not None:
            raise error


@contextlib.contextmanager
def inline(
    *queues: QueueLike,
    hooks: Hooks = NO_HOOKS,
    raise_errors: bool = False,
    runtime: GetRuntime | None = None,
) -> Iterator[None]:
    """Within the block, `enqueue` runs all jobs that are due at once, in the caller.

    So does an `enqueue` in a handler, up to 20 jobs deep; beyond that, a job runs after the one
    that enqueued it.

    >>> with inline(queue):  # doctest: +SKIP
    ...     sign_up("a@example.com")
    """
    chosen = list(map(_queue_of, queues))

    def run(key: QueueKey) -> None:
        above = _draining.get()
        if len(above) >= MAX_DEPTH and key in above:
            return  # the drain around this one runs the job
        inside = _draining.set((*above, key))
        try:
            for queue in chosen:
                if queue.key == key:
                    drain(queue, hooks=hooks, raise_errors=raise_errors, runtime=runtime)
        finally:
            _draining.reset(inside)

    with contextlib.ExitStack() as stack:
        for store in {id(queue.store): queue.store for queue in chosen}.values():
            stack.enter_context(mock.patch.object(store, "enqueue", _enqueue_then(store, run)))
        yield


def assert_enqueued(
    queue: QueueLike,
    *,
    kind: str | None = None,
    payload: Any = ...,
    id: str | None = None,
    state: State | str | None = None,
    count: int | None = None,
) -> list[Job[Any]]:
    """Fail unless there is such a job (or exactly `count`), in any state; returns the matches.

    >>> assert_enqueued(queue, kind="welcome", payload={"to": "a"})  # doctest: +SKIP
    """
    kind = _kind_of(queue, kind)
    queue = _queue_of(queue)
    found, existing = _find(queue, kind, payload, id, state)
    if count is None and found:
        return found
    if count is not None and len(found) == count:
        return found
    wanted = "a job" if count is None else f"{count} jobs"
    expected = f"expected {wanted}{_describe(kind, payload, id, state)} in {queue}"
    raise AssertionError(f"{expected}, found {len(found)}.{list_jobs(existing)}")


def refute_enqueued(
    queue: QueueLike,
    *,
    kind: str | None = None,
    payload: Any = ...,
    id: str | None = None,
    state: State | str | None = None,
) -> None:
    """Fail if there is such a job, in any state.

    >>> refute_enqueued(queue, kind="welcome")  # doctest: +SKIP
    """
    kind = _kind_of(queue, kind)
    queue = _queue_of(queue)
    found, _ = _find(queue, kind, payload, id, state)
    if found:
        expected = f"expected no job{_describe(kind, payload, id, state)} in {queue}"
        raise AssertionError(f"{expected}, found {len(found)}.{list_jobs(found)}")


# --- running ---


def _claim(queue: Queue[Any, Any]) -> Record | None:
    request = ClaimRequest(
        worker="drain",
        limit=1,
        lease=queue.policies.settings(max_age=0).policy.lease or DEFAULTS.lease,
        kinds=queue.handlers.kinds_to_claim,
    )
    return next(iter(queue.claim_records(request).jobs), None)


def _run(
    queue: Queue[Any, Any], record: Record, hooks: Hooks, runtime: Runtime
) -> tuple[State | None, BaseException | None]:
    """Run one job as a worker does; returns its new state, and what its handler raised."""
    handler, policy = queue.handlers[record.kind], queue.policies.of(record)
    job: Job[Any] = Job(record, queue, handler.payload_type, runtime.resources)
    result: Any = None
    error: BaseException | None = None
    try:
        for hook in hooks.before:
            hook(job)
        result = _call_within(policy.timeout, handler, job, runtime)
    except RaisableOutcome as outcome:
        result = outcome
    except BaseException as raised:
        error = raised
    transition = transition_for(queue, job, policy, result, error, hooks)
    state = queue.apply([transition])[0].state
    if error is not None and not isinstance(error, FAILURES):
        raise error
    return state, error


def _call_within(seconds: float | None, handler: Handler, job: Job[Any], runtime: Runtime) -> Any:
    """Call a handler; after its timeout its signal is set, and it fails whatever it returns."""
    if seconds is None:
        return _call(handler, job, runtime)
    timer = threading.Timer(seconds, job.signal.set, [StopReason.TIMEOUT])
    timer.start()
    try:
        result = _call(handler, job, runtime)
    except BaseException:
        if not job.signal.is_set():
            raise
    finally:
        timer.cancel()
    if job.signal.is_set():
        raise HandlerTimeout(f"took longer than {seconds:g} s")
    return result


def _call(handler: Handler, job: Job[Any], runtime: Runtime) -> Any:
    if not handler.is_async:
        return handler.function(job)
    return runtime.run(_interruptible(handler, job))


async def _interruptible(handler: Handler, job: Job[Any]) -> Any:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(handler.function(job))

    def interrupt() -> None:
        loop.call_soon_threadsafe(task.cancel)

    job.signal.on_set(interrupt)
    return await task


def _run_to_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    # The caller runs on an event loop itself, and a thread can run only one.
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(coroutine))
        except BaseException as error:
            errors.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=[run], name="ackline inline")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def advance_to_next(queues: Sequence[Queue[Any, Any]], clock: ManualClock) -> bool:
    """Move the clock on to when the next job is due; False if none waits for its time."""
    moments = [
        job.record.run_at
        for queue in queues
        for state in (State.SCHEDULED, State.FAILING)
        for job in queue.jobs(states=[state], limit=1).jobs
        if job.record.run_at is not None
    ]
    if not moments:
        return False
    clock.advance(max(0.0, min(moments) - clock.now()))
    return True


def _enqueue_then(store: Store, run: Callable[[QueueKey], None]) -> Callable[..., list[Receipt]]:
    enqueue = store.enqueue

    def enqueue_and_run(
        queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        receipts = enqueue(queue, drafts, keys)
        run(queue)
        return receipts

    return enqueue_and_run


DEFAULT_RUNTIME = Runtime(NO_RESOURCES, _run_to_end)
"""Without resources, and with an event loop for each coroutine."""


# --- finding jobs ---


def _find(
    queue: Queue[Any, Any], kind: str | None, payload: Any, id: str | None, state: str | None
) -> tuple[list[Job[Any]], list[Job[Any]]]:
    """The jobs that match, and all jobs."""
    existing = list(all_jobs(queue))
    found = [
        job
        for job in existing
        if (kind is None or job.kind == kind)
        and (id is None or job.id == id)
        and (state is None or job.state == State(state))
        and (payload is ... or _has_payload(queue, job, payload))
    ]
    return found, existing


def all_jobs(queue: Queue[Any, Any]) -> Iterator[Job[Any]]:
    """All jobs of a queue, in any state."""
    cursor = None
    while True:
        page = queue.jobs(cursor=cursor, limit=500)
        yield from page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def _has_payload(queue: Queue[Any, Any], job: Job[Any], payload: Any) -> bool:
    plain = queue.serdes.decode_payload(job.record, Any)
    if plain == payload:
        return True
    # A payload of a user's own type reads back as plain data.
    return job.record.payload == queue.serdes.encode_payload(payload)


def _describe(kind: str | None, payload: Any, id: str | None, state: str | None) -> str:
    parts = {"kind": kind, "id": id, "state": state and str(state)}
    described = [f"{name} {value!r}" for name, value in parts.items() if value is not None]
    if payload is not ...:
        described.append(f"payload {payload!r}")
    return f" with {', '.join(described)}" if described else ""


def list_jobs(jobs: Sequence[Job[Any]]) -> str:
    """What a failed assertion says of the jobs that exist."""
    if not jobs:
        return " The queue is empty."
    lines = [
        f"  {job.id!r}: kind {job.kind!r}, {job.state}, payload {_payload_text(job)}"
        for job in jobs[:MAX_LISTED]
    ]
    if len(jobs) > MAX_LISTED:
        lines.append(f"  … and {len(jobs) - MAX_LISTED:,} more")
    return " These are there:\n" + "\n".join(lines)


def _payload_text(job: Job[Any]) -> str:
    text = job.record.payload.decode(errors="backslashreplace")
    return text if len(text) <= 200 else f"{text[:200]}…"
