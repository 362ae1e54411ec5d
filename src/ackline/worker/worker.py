"""The worker: claims jobs, runs their handlers, settles them, and stops gracefully."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, Protocol, TypedDict, cast

import msgspec

from ackline.core.config import suggests_options
from ackline.core.errors import AcklineError, ConfigError, InvalidOption
from ackline.core.limits import Seconds, optional_seconds, require_name, some_seconds
from ackline.maintenance import Maintenance
from ackline.queue.consume import new_worker_id
from ackline.queue.handlers import import_path_of
from ackline.queue.job import NO_RESOURCES
from ackline.queue.queue import Queue, require_queue
from ackline.worker.execute.handler_loop import HandlerLoop, OwnLoop
from ackline.worker.fair_share import FairShare
from ackline.worker.heartbeat import HEARTBEAT_TTL, MIN_HEARTBEAT_TTL
from ackline.worker.hooks import NO_HOOKS, Hooks
from ackline.worker.leased_jobs import JobObserver
from ackline.worker.lifespan import Lifespan, LifespanFunction
from ackline.worker.processes.stop_signals import handle_stop_signals
from ackline.worker.queue_runner import QueueRunner, QueueStats
from ackline.worker.startup_retry import retry_until_available

logger = logging.getLogger("ackline")

INTERRUPT_SECONDS = 2.0
"""Seconds that interrupted handlers have to end after the grace period."""

RELEASE_TIMEOUT = 2.0
"""Seconds to wait for the store to take released jobs, after a second request to stop."""


CLOSE_TIMEOUT = 2.0
"""Seconds for an async lifespan to close its resources, after a second request to stop."""


_imported_by: contextvars.ContextVar[str] = contextvars.ContextVar("ackline import", default="")
"""The program that is importing a module to find its workers, if one is."""


@contextlib.contextmanager
def refusing_to_run(program: str) -> Iterator[None]:
    """Refuse to start workers in a module that is only imported: a second one would run in it."""
    importing = _imported_by.set(program)
    try:
        yield
    finally:
        _imported_by.reset(importing)


class ApplicationTask(Protocol):
    """A task of an app, as a worker sees it."""

    @property
    def is_async(self) -> bool: ...


class Application(Protocol):
    """An app as a worker sees it: queues with handlers, and what is around them."""

    @property
    def tasks(self) -> Mapping[str, ApplicationTask]: ...

    @property
    def sync_middleware(self) -> Sequence[Any]: ...

    @property
    def async_middleware(self) -> Sequence[Any]: ...

    @property
    def lifespan_function(self) -> LifespanFunction | None: ...

    def open_queues(self) -> Sequence[Queue[Any, Any]]: ...


class WorkerStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is doing, and has done so far."""

    id: str
    ready: bool
    """Whether it runs, claims jobs, and the store accepts its heartbeats."""
    error: str
    """The error that made it stop, if any."""
    queues: tuple[QueueStats, ...]
    """One for each queue while it runs."""


class WorkerOptions(TypedDict, total=False):
    """The options of a worker, as `Worker` takes them."""

    concurrency: int
    weights: Sequence[float] | None
    grace: Seconds
    heartbeat_ttl: Seconds
    id: str | None
    hooks: Hooks
    lifespan: LifespanFunction | None
    maintenance: bool
    recovery: bool
    log_jobs: bool


class Worker:
    """Runs the handlers of one or more queues.

    `concurrency` is how many jobs of a queue run at the same time; quick ones are prefetched.
    If it cannot keep up, the queues share it by their `weights`, one for each queue, equal by
    default. `lifespan` is a generator function that opens what handlers need before the first
    claim, yields it as a dict (`job.resources`), and closes it after the last handler.
    Failed attempts are logged unless `log_jobs` is False.

    Others recover its jobs after `heartbeat_ttl` seconds without a heartbeat.

    SIGTERM, SIGINT or SIGHUP stops claiming and gives running jobs `grace` seconds; a second signal
    does not wait.

    >>> ackline.Worker(queue, concurrency=64).run()  # doctest: +SKIP
    """

    @suggests_options
    def __init__(
        self,
        *queues: Queue[Any, Any] | Application,
        concurrency: int = 16,
        weights: Sequence[float] | None = None,
        grace: Seconds = 30.0,
        heartbeat_ttl: Seconds = HEARTBEAT_TTL,
        id: str | None = None,
        hooks: Hooks = NO_HOOKS,
        lifespan: LifespanFunction | None = None,
        maintenance: bool = True,
        recovery: bool = True,
        log_jobs: bool = True,
    ) -> None:
        queues, lifespan = _unpack_application(queues, lifespan)
        _require_handlers(queues)
        _require_concurrency(concurrency)
        weights = [1.0] * len(queues) if weights is None else weights
        _require_weights(weights, len(queues))
        _require_hooks(hooks)
        self.id = new_worker_id() if id is None else id
        require_name("worker's id", self.id)
        self.queues = queues
        self.concurrency = concurrency
        self.weights = weights
        self.grace = _grace_in_seconds(grace)
        self.heartbeat_ttl = _heartbeat_ttl_in_seconds(heartbeat_ttl)
        self._hooks = hooks
        self._lifespan = None if lifespan is None else Lifespan(lifespan)
        self._handler_loop: HandlerLoop | None = None
        self._runs_maintenance = maintenance
        self._runs_recovery = recovery
        self._log_jobs = log_jobs
        self._observer: JobObserver | None = None
        self._maintenance: Maintenance | None = None
        self._runners: list[QueueRunner] = []
        self._stop = threading.Event()
        self._stop_now = threading.Event()
        self._error_lock = threading.Lock()
        self._error: AcklineError | None = None

    def run(self) -> None:
        """Work until a signal or `request_stop`; at the start, wait for a store that is down.

        Raises `HandlersHang` when too many handlers do not stop: only a restart gets rid of them.
        Raises `StoreClosed` when this program has closed the store, which is permanent.
        """
        main = threading.current_thread() is threading.main_thread()
        restore_signals = handle_stop_signals(lambda _number: self.request_stop()) if main else None
        try:
            # The request may come before the start, for example from a parent that has exited.
            retry_until_available(self.start, self._stop)
            # Wakes regularly so that signals are seen on every platform. Between two waits,
            # another thread may have stopped the worker and cleared the request again.
            while self._runners and not self._stop.wait(0.5):
                continue
            self.stop()
            if self._error is not None:
                raise self._error
        finally:
            if restore_signals is not None:
                restore_signals()

    def start(self) -> None:
        """Start working, in background threads."""
        if program := _imported_by.get():
            raise ConfigError(
                f"a worker was started while `{program}` imported the module that defines it: "
                'start it below `if __name__ == "__main__":`'
            )
        if self._runners:
            raise ConfigError(
                f"worker {self.id} is already running: stop it first, or create another"
            )
        self._error = None
        try:
            # First: while the store is down, `run` tries again without opening any resources.
            for queue in self.queues:
                queue.policies.publish()
            self._start_runners(self._open_resources())
        except BaseException:
            # Not by `stop`: a request to stop must not be forgotten because the start failed.
            self._shut_down(0.0, 0.0, self._stop_now)
            self._close_resources()
            self._runners = []
            raise
        if self._runs_maintenance:
            self._maintenance = Maintenance(self.queues, recovery=self._runs_recovery)
            self._maintenance.start()
        names = ", ".join(str(queue.key) for queue in self.queues)
        logger.info("worker %s started on %s", self.id, names, extra={"worker": self.id})

    def _open_resources(self) -> Mapping[str, Any]:
        is_async = any(queue.handlers.has_async for queue in self.queues)
        if is_async or (self._lifespan is not None and self._lifespan.is_async):
            self._handler_loop = self._make_loop()
            self._handler_loop.start()
        resources = NO_RESOURCES
        if self._lifespan is not None:
            resources = self._lifespan.enter(self._handler_loop, self._stop.is_set)
        for queue in self.queues:
            queue.handlers.require_resources(resources)
        return resources

    def _close_resources(self) -> None:
        if self._lifespan is not None:
            self._lifespan.exit(self._handler_loop, _once_set_for(CLOSE_TIMEOUT, self._stop_now))
        loop, self._handler_loop = self._handler_loop, None
        if loop is not None:
            loop.stop()

    def _start_runners(self, resources: Mapping[str, Any]) -> None:
        fair_share = FairShare()
        for queue, weight in zip(self.queues, self.weights, strict=True):
            self._runners.append(
                QueueRunner(
                    queue,
                    worker_id=self.id,
                    concurrency=self.concurrency,
                    heartbeat_ttl=self.heartbeat_ttl,
                    hooks=self._hooks,
                    handler_loop=self._handler_loop,
                    resources=resources,
                    fair_share=fair_share,
                    weight=weight,
                    log_jobs=self._log_jobs,
                    observer=self._observer,
                    stop_worker=self.stop_with_error,
                )
            )
        for runner in self._runners:
            runner.start()

    def _make_loop(self) -> HandlerLoop:
        return OwnLoop()

    def stop(self) -> None:
        """Stop claiming, let running jobs end within the grace period, release the rest."""
        self._stop.set()
        stop_now = self._stop_now
        # In a thread, so that a store that does not respond cannot delay an immediate stop.
        shutdown = threading.Thread(
            target=self._shut_down,
            args=[self.grace, INTERRUPT_SECONDS, stop_now],
            name="ackline stop",
            daemon=True,
        )
        shutdown.start()
        while shutdown.is_alive() and not stop_now.is_set():
            shutdown.join(0.05)
        shutdown.join(RELEASE_TIMEOUT)
        if shutdown.is_alive():
            logger.error("worker %s gave up waiting for the store; its leases will expire", self.id)
        # In this thread, the one that opened them: some resources belong to a thread.
        self._close_resources()
        self._runners, self._maintenance = [], None
        # Not at the start: a request to stop must not be forgotten because it came early.
        self._stop.clear()
        # A new event: threads that are left behind must still see that they have to stop now.
        self._stop_now = threading.Event()
        logger.info("worker %s stopped", self.id, extra={"worker": self.id})

    def _shut_down(self, grace: float, interrupt_seconds: float, stop_now: threading.Event) -> None:
        runners, maintenance = self._runners, self._maintenance
        _for_each_runner(runners, QueueRunner.stop_claiming)
        _wait_for_handlers(runners, grace, stop_now)
        _for_each_runner(runners, QueueRunner.interrupt_handlers)
        _wait_for_handlers(runners, interrupt_seconds, stop_now)
        # Release the jobs of all queues before closing any: one store may respond, another not.
        _for_each_runner(runners, QueueRunner.release_all)
        _for_each_runner(runners, QueueRunner.close)
        if maintenance is not None:
            maintenance.stop()

    def observe(self, observer: JobObserver) -> None:
        """Have its jobs measured from its next start on, as `ackline.metrics` does."""
        if self._runners:
            raise ConfigError(f"worker {self.id} is running: measure it before it starts")
        self._observer = observer

    def stats(self) -> WorkerStats:
        """What it is doing, and has done so far."""
        queues = tuple(runner.stats() for runner in self._runners)
        alive = all(queue.heartbeat_age < self.heartbeat_ttl for queue in queues)
        return WorkerStats(
            id=self.id,
            ready=bool(queues) and alive and not self._stop.is_set(),
            error="" if self._error is None else str(self._error),
            queues=queues,
        )

    @property
    def error(self) -> AcklineError | None:
        """The error that made it stop claiming since its last start, if any.

        `run` raises it. A program that uses `start` has to check it, and stop the worker.
        """
        return self._error

    def stop_with_error(self, error: AcklineError) -> None:
        """Stop claiming because of a permanent error, which `run` then raises."""
        with self._error_lock:
            if self._error is not None:
                return
            self._error = error
        logger.error("worker %s is stopping: %s", self.id, error)
        for queue in self.queues:
            queue.error_callbacks.report(error)
        for runner in self._runners:
            runner.stop_claiming()
        self._stop.set()

    def request_stop(self) -> None:
        """Make `run` stop; a second call makes it stop immediately."""
        if self._stop.is_set():
            self._stop_now.set()
        self._stop.set()


def _unpack_application(
    sources: Sequence[Queue[Any, Any] | Application], lifespan: LifespanFunction | None
) -> tuple[tuple[Queue[Any, Any], ...], LifespanFunction | None]:
    """The queues of an app and its lifespan, or the queues as they are."""
    apps = [cast(Application, source) for source in sources if hasattr(source, "open_queues")]
    if not apps:
        return cast("tuple[Queue[Any, Any], ...]", tuple(sources)), lifespan
    if len(sources) > 1 or lifespan is not None:
        raise ConfigError("a worker serves one app, with its own lifespan, or queues")
    [app] = apps
    queues = tuple(app.open_queues())
    warn_of_unused_middleware(app)
    return queues, app.lifespan_function


def warn_of_unused_middleware(app: Application) -> None:
    """Warn if all middleware of an app is async and all its tasks are sync, or vice versa."""
    tasks_are_async = {task.is_async for task in app.tasks.values()}
    if app.async_middleware and not app.sync_middleware and tasks_are_async == {False}:
        unused, kind, remedy = app.async_middleware, "async", "make it a plain function"
    elif app.sync_middleware and not app.async_middleware and tasks_are_async == {True}:
        unused, kind, remedy = app.sync_middleware, "sync", "make it async"
    else:
        return
    names = ", ".join(map(import_path_of, unused))
    logger.warning(
        "middleware %s never runs: it is for %s tasks, and the app has none; %s",
        names,
        kind,
        remedy,
    )


def _wait_for_handlers(
    runners: Sequence[QueueRunner], seconds: float, stop_now: threading.Event
) -> None:
    until = time.monotonic() + seconds
    while any(runner.busy for runner in runners) and time.monotonic() < until:
        if stop_now.wait(0.01):
            return


def _once_set_for(seconds: float, event: threading.Event) -> Callable[[], bool]:
    """A function that says whether an event has been seen set for this long."""
    until = inf

    def passed() -> bool:
        nonlocal until
        if until == inf and event.is_set():
            until = time.monotonic() + seconds
        return time.monotonic() >= until

    return passed


def _for_each_runner(runners: Sequence[QueueRunner], step: Callable[[QueueRunner], None]) -> None:
    for runner in runners:
        runner.try_step(partial(step, runner))


def _require_handlers(queues: Sequence[Queue[Any, Any]]) -> None:
    if not queues:
        raise ConfigError("a worker needs at least one queue")
    for queue in queues:
        require_queue("Worker", queue)
        if not queue.handlers:
            raise ConfigError(f"queue {queue.key} has no handler: add one with @queue.handler")


def _require_concurrency(concurrency: object) -> None:
    if type(concurrency) is not int or concurrency < 1:
        raise ConfigError(f"concurrency must be a whole number, 1 or more, not {concurrency!r}")


def _require_weights(weights: Any, queues: int) -> None:
    one_each = isinstance(weights, Sequence) and len(weights) == queues
    if not one_each or not all(type(each) in (int, float) and 0 < each < inf for each in weights):
        raise ConfigError(f"weights must be one number above 0 for each queue, not {weights!r}")


def _grace_in_seconds(grace: Seconds) -> float:
    seconds = optional_seconds("grace", grace)
    if seconds is None:
        raise InvalidOption(
            "grace must be a number of seconds, not None; for no limit, use a large number"
        )
    return seconds


def _heartbeat_ttl_in_seconds(ttl: Seconds) -> float:
    seconds = some_seconds("heartbeat_ttl", ttl)
    if seconds < MIN_HEARTBEAT_TTL:
        raise InvalidOption(
            f"heartbeat_ttl must be at least {MIN_HEARTBEAT_TTL:g} seconds, not {seconds!r}"
        )
    return seconds


def _require_hooks(hooks: object) -> None:
    if not isinstance(hooks, Hooks):
        raise ConfigError(f"hooks must be ackline.Hooks(before=[…], after=[…]), not {hooks!r}")
