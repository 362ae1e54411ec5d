"""An app: tasks, schedules, resources and middleware, and the store that they use."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from ackline.aio import AsyncQueues
from ackline.app.middleware import Middleware
from ackline.app.task import AsyncTask, BaseTask, EnqueueRequest, Task
from ackline.core.config import suggestion_for, suggests_options
from ackline.core.cron import CatchUp, Every
from ackline.core.errors import ConfigError
from ackline.core.limits import Seconds
from ackline.core.retry import BackoffLike
from ackline.queue import Queue
from ackline.queue.drafts.builder import TaskOptions
from ackline.queue.handlers import handler_policy, import_path_of, is_async
from ackline.queues import Queues
from ackline.queues import open as open_queues
from ackline.stores.registry import StoreSource
from ackline.worker.lifespan import LifespanFunction, require_lifespan

if TYPE_CHECKING:
    from ackline.app.testing import AppTest

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=Middleware)
L = TypeVar("L", bound=LifespanFunction)

EnqueueHook = Callable[[EnqueueRequest], None]
H = TypeVar("H", bound=EnqueueHook)

DEFAULT_QUEUE = "default"

STORE_VARIABLE = "ACKLINE_STORE"


class TaskSettings(TypedDict, total=False):
    """The settings of a task."""

    kind: str
    queue: str
    priority: int
    tags: Iterable[str]
    max_attempts: int
    backoff: BackoffLike
    lease: Seconds
    timeout: Seconds
    result_ttl: Seconds


_SETTINGS = frozenset(TaskSettings.__annotations__)


class TaskDecorator(Protocol):
    """Makes a task of a function."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class OpenedApp:
    """An app that is open until the end of a `with` or `async with` block."""

    def __init__(self, app: App, *, closes: bool) -> None:
        self._app = app
        self._closes = closes

    def __enter__(self) -> App:
        return self._app

    def __exit__(self, *_error: object) -> None:
        if self._closes:
            self._app.close()

    async def __aenter__(self) -> App:
        return self._app

    async def __aexit__(self, *_error: object) -> None:
        if self._closes:
            await self._app.aclose()


class App:
    """Tasks and the queues they go through.

    Nothing is opened when it is created, so a module that defines one can be imported anywhere.
    The store is opened by `open`, by a worker, or when it is first used. Its URL is what `open` is
    given, else the variable ACKLINE_STORE, else `url`. With `store`, which is whatever
    `ackline.open` takes, such as a store or a `redis.Redis`, the variable does not count.

    >>> app = App("memory://")
    >>> @app.task(queue="email")
    ... def welcome(to: str) -> str:
    ...     return f"welcome, {to}"
    >>> welcome.enqueue(to="ann").state
    <State.QUEUED: 'queued'>
    """

    @suggests_options
    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        *,
        store: StoreSource | None = None,
        tenant: str | None = None,
        include: Iterable[str] = (),
    ) -> None:
        if isinstance(include, str):
            raise ConfigError(f"include is a list of modules: write include=[{include!r}]")
        if url is not None and store is not None:
            raise ConfigError("an app has one store: pass url or store")
        self._url = url
        self._store = store
        self._tenant = tenant
        self._include = tuple(include)
        self._tasks: dict[str, BaseTask[..., Any]] = {}
        self._schedules: list[tuple[BaseTask[..., Any], tuple[Any, ...]]] = []
        self.lifespan_function: LifespanFunction | None = None
        self.sync_middleware: list[Middleware] = []
        self.async_middleware: list[Middleware] = []
        self.enqueue_hooks: list[EnqueueHook] = []
        self._lock = threading.RLock()
        self._queues: Queues | None = None
        self._aio: AsyncQueues | None = None
        self._in_test = False

    def __repr__(self) -> str:
        queues = self._queues
        state = "not open" if queues is None else f"open, {queues.store.capabilities.name}"
        return f"<App with {len(self._tasks)} tasks, {state}>"

    # --- tasks ---

    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(self, **settings: Unpack[TaskSettings]) -> TaskDecorator: ...

    def task(  # type: ignore[misc]
        self, function: Any = None, /, **settings: Any
    ) -> Any:
        """Make a function a task: its kind is its dotted name unless you give another.

        >>> @app.task(queue="email", max_attempts=5, backoff=[1, 5, 30])  # doctest: +SKIP
        ... async def welcome(to: str, template: str = "plain") -> None: ...
        """
        if function is not None:
            return self._add_task(function, {})
        if unknown := settings.keys() - _SETTINGS:
            raise TypeError(
                f"unknown setting of a task: "
                f"{', '.join(sorted(unknown))}{suggestion_for(unknown, _SETTINGS)}"
            )
        return lambda function: self._add_task(function, cast(TaskSettings, settings))

    def every(
        self,
        when: Every,
        *,
        tz: str = "UTC",
        arguments: Mapping[str, Any] | None = None,
        name: str | None = None,
        catch_up: CatchUp = "one",
        **settings: Unpack[TaskSettings],
    ) -> TaskDecorator:
        """Enqueue a task at each tick of a cron expression, `@daily` or interval, once per tick.

        It decorates a task, or a function that becomes one with the settings that `task` takes.

        >>> @app.every("0 7 * * *", tz="Europe/Berlin")  # doctest: +SKIP
        ... def report() -> None: ...
        """

        def schedule(function: Any) -> Any:
            if not isinstance(function, BaseTask):
                task = self.task(**settings)(function)
            elif not settings:
                task = function
            else:
                names = ", ".join(sorted(settings))
                raise ConfigError(f"{function!r} is a task already: pass {names} to app.task")
            payload = task.arguments.pack((), dict(arguments or {}))
            task.arguments.require_names(payload)
            self._add_schedule(task, name or task.kind, when, payload, tz, catch_up)
            return task

        return cast(TaskDecorator, schedule)

    @property
    def tasks(self) -> Mapping[str, BaseTask[..., Any]]:
        """All tasks defined so far, by kind."""
        return dict(self._tasks)

    # --- around tasks ---

    def lifespan(self, function: L) -> L:
        """Open resources in each worker process before its first job, and close them at its end.

        The generator yields them in a dict; a task gets one as a parameter with `resource()`.

        >>> @app.lifespan  # doctest: +SKIP
        ... async def resources():
        ...     async with make_pool() as pool:
        ...         yield {"db": pool}
        """
        require_lifespan(function)
        if self.lifespan_function is not None:
            raise ConfigError(
                f"the app has a lifespan already, {import_path_of(self.lifespan_function)}: "
                "open everything in that one"
            )
        self.lifespan_function = function
        return function

    def middleware(self, function: M) -> M:
        """Run each task within this function; an async function is for async tasks.

        The first middleware is the outermost. It must call `call_next` once, or return an outcome.

        >>> @app.middleware  # doctest: +SKIP
        ... async def trace(job, call_next):
        ...     with span(job.kind):
        ...         return await call_next()
        """
        if self._queues is not None:
            raise ConfigError(f"add the middleware {import_path_of(function)} before the app opens")
        (self.async_middleware if is_async(function) else self.sync_middleware).append(function)
        return function

    def on_enqueue(self, hook: H) -> H:
        """Call this with each `EnqueueRequest` before it is stored: to change it, or to raise.

        >>> @app.on_enqueue  # doctest: +SKIP
        ... def add_user(request):
        ...     request.options["headers"] = {"user": current_user()}
        """
        if is_async(hook):
            raise ConfigError(f"{import_path_of(hook)} must not be async: enqueue calls it")
        self.enqueue_hooks.append(hook)
        return hook

    # --- the store ---

    @suggests_options
    def open(
        self,
        url: StoreSource | None = None,
        *,
        tenant: str | None = None,
        token: str | None = None,
    ) -> OpenedApp:
        """Open the store, until the end of a `with` or `async with` block or `close`.

        An app that is open already stays as it is, within `testing` too, and is not closed by
        this block; another URL is refused then.

        >>> with app.open("sqlite:///jobs.db"):  # doctest: +SKIP
        ...     welcome.enqueue(to="ann@example.com")
        """
        with self._lock:
            if self._queues is not None:
                if not self._in_test and (url or tenant or token):
                    raise ConfigError(f"{self!r} is open already: close it before it opens another")
                return OpenedApp(self, closes=False)
            url = url or self._store or os.environ.get(STORE_VARIABLE) or self._url
            if url is None:
                raise ConfigError(
                    f"no store is named: pass a URL to App or open, or set {STORE_VARIABLE}"
                )
            queues = open_queues(url, tenant=tenant or self._tenant, token=token)
            try:
                self.use(queues)
            except BaseException:
                queues.close()
                raise
        return OpenedApp(self, closes=True)

    def use(self, queues: Queues) -> None:
        """Use queues that are open already; `close` closes them."""
        with self._lock:
            for task in self._tasks.values():
                queues[task.queue_name].handlers.register(task.handler())
            for task, schedule in self._schedules:
                _add_schedule(queues, task, *schedule)
            self._queues = queues

    @property
    def queues(self) -> Queues:
        """The queues of the store, which is opened if it is not open."""
        queues = self._queues
        if queues is None:
            with self._lock:
                if self._queues is None:
                    self.open()
                queues = cast(Queues, self._queues)
        return queues

    @property
    def aio(self) -> AsyncQueues:
        """The same queues, for asyncio."""
        with self._lock:
            if self._aio is None:
                self._aio = AsyncQueues(self.queues)
            return self._aio

    def close(self) -> None:
        """Close the store, if it is open; it can be opened again."""
        with self._lock:
            queues, self._queues, self._aio = self._queues, None, None
        if queues is not None:
            queues.close()

    async def aclose(self) -> None:
        """Close the store without blocking the event loop."""
        with self._lock:
            aio, self._aio = self._aio, None
            queues, self._queues = self._queues, None
        if aio is not None:
            await aio.close()
        elif queues is not None:
            await asyncio.to_thread(queues.close)

    @contextlib.contextmanager
    def testing(
        self, *, resources: Mapping[str, Any] | None = None, inline: bool = False
    ) -> Iterator[AppTest]:
        """Within the block, jobs are kept in memory and run when the test says so.

        `resources` replace what the lifespan opens; otherwise it is entered when the first job
        runs. With `inline`, `enqueue` runs its job at once.

        >>> with app.testing() as jobs:  # doctest: +SKIP
        ...     sign_up("ann@example.com")
        ...     jobs.assert_enqueued(welcome, to="ann@example.com")
        ...     jobs.drain()
        """
        from ackline.app.testing import AppTest

        test = AppTest(self, resources)
        before = self._queues, self._aio, self._in_test
        self._queues, self._aio, self._in_test = None, None, True
        try:
            with test.running(run_inline=inline):
                yield test
        finally:
            self.close()
            self._queues, self._aio, self._in_test = before

    # --- for workers ---

    def open_queues(self, names: Iterable[str] | None = None) -> list[Queue[Any, Any]]:
        """The queues that a worker serves: those of the tasks, or those of them that are named."""
        for module in self._include:
            importlib.import_module(module)
        served = sorted({task.queue_name for task in self._tasks.values()})
        if not served:
            raise ConfigError(
                "the app has no tasks: define them with @app.task, and name the modules that do in "
                "App(include=[…])"
            )
        chosen = served if names is None else list(dict.fromkeys(names))
        if unknown := [name for name in chosen if name not in served]:
            raise ConfigError(
                f"the app has no task in queue {' or '.join(map(repr, unknown))}; "
                f"its queues are {', '.join(served)}"
            )
        return [self.queues[name] for name in chosen]

    def _add_task(self, function: Any, settings: TaskSettings) -> BaseTask[..., Any]:
        if not inspect.isroutine(function):
            raise ConfigError(f"a task must be a function, not {function!r}")
        kind = settings.get("kind") or dotted_name(function)
        if other := self._tasks.get(kind):
            raise ConfigError(
                f"two tasks are called {kind!r}: {import_path_of(other.function)} and "
                f"{import_path_of(function)}; give one of them another name: app.task(kind=…)"
            )
        queue = settings.get("queue", DEFAULT_QUEUE)
        options: TaskOptions = {}
        if "priority" in settings:
            options["priority"] = settings["priority"]
        if "tags" in settings:
            options["tags"] = settings["tags"]
        policy = handler_policy(
            max_attempts=settings.get("max_attempts"),
            backoff=settings.get("backoff"),
            lease=settings.get("lease"),
            timeout=settings.get("timeout"),
            result_ttl=settings.get("result_ttl"),
        )
        make = AsyncTask if is_async(function) else Task
        task: BaseTask[..., Any] = make(self, function, kind, queue, policy, options)
        with self._lock:
            if self._queues is not None:
                self._queues[queue].handlers.register(task.handler())
            self._tasks[kind] = task
        return task

    def _add_schedule(self, task: BaseTask[..., Any], *schedule: Any) -> None:
        with self._lock:
            if self._queues is not None:
                _add_schedule(self._queues, task, *schedule)
            self._schedules.append((task, schedule))


def _add_schedule(
    queues: Queues,
    task: BaseTask[..., Any],
    name: str,
    when: Every,
    payload: Mapping[str, Any],
    tz: str,
    catch_up: CatchUp,
) -> None:
    queue = queues[task.queue_name]
    queue.every(when, payload, name=name, tz=tz, catch_up=catch_up, **task.job_options)


def dotted_name(function: Callable[..., Any]) -> str:
    """The name under which other processes import a function.

    A script calls itself `__main__`, but a worker imports it under its own name.
    """
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        file = getattr(main, "__file__", None)
        if spec is not None:
            module = spec.name.removesuffix(".__main__")
        elif file is not None:
            module = Path(file).stem
    return f"{module}.{function.__qualname__}"
