"""Tasks: functions that are called through a queue."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, cast

from msgspec.structs import astuple

from ackline.app.arguments import Arguments
from ackline.app.middleware import wrap, wrap_async
from ackline.core.config import Policy, suggestion_for
from ackline.core.errors import InvalidArguments, InvalidOption, InvalidPayload, PayloadTooLarge
from ackline.core.job import Draft
from ackline.core.limits import Seconds, some_seconds
from ackline.queue import Completed, Enqueued, Job, NewJob, Queue
from ackline.queue.drafts.builder import CallOptions, EnqueueOptions, TaskOptions
from ackline.queue.handlers import Handler, is_async
from ackline.queue.produce import CompletedUndecodable

if TYPE_CHECKING:
    from ackline.aio import AsyncQueue
    from ackline.app.app import App

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_WAIT = 30.0
"""Seconds that `call` waits for the result."""

_OPTIONS = frozenset(TaskOptions.__annotations__)


class EnqueueRequest:
    """A call of a task that is about to be enqueued; hooks may change arguments and options."""

    __slots__ = ("arguments", "options", "task")

    def __init__(
        self, task: BaseTask[..., Any], arguments: dict[str, Any], options: dict[str, Any]
    ) -> None:
        self.task = task
        self.arguments = arguments
        self.options = options


class BaseTask(Generic[P, R]):
    """A function of an app that workers run."""

    __name__: str

    def __init__(
        self,
        app: App,
        function: Callable[..., Any],
        kind: str,
        queue: str,
        policy: Policy,
        options: TaskOptions,
    ) -> None:
        self.app = app
        self.function = function
        self.kind = kind
        self.queue_name = queue
        self.policy = policy
        self.arguments = Arguments(kind, function)
        self.job_options: dict[str, Any] = {**options, "kind": kind}
        functools.update_wrapper(cast(Any, self), function)

    def __repr__(self) -> str:
        return f"<task {self.kind!r} of queue {self.queue_name!r}>"

    def options(self, **options: Unpack[TaskOptions]) -> Self:
        """The same task with options for the jobs that are enqueued through it.

        >>> welcome.options(id="w-1", delay=300, priority=8).enqueue(to="ann")  # doctest: +SKIP
        """
        if unknown := options.keys() - _OPTIONS:
            raise TypeError(
                f"unknown option of a task: "
                f"{', '.join(sorted(unknown))}{suggestion_for(unknown, _OPTIONS)}"
            )
        copy = self.__class__.__new__(self.__class__)
        copy.__dict__.update(self.__dict__)
        copy.job_options = {**self.job_options, **options}
        return copy

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Enqueue a call; when this returns, the job is as durable as the store makes it.

        >>> welcome.enqueue(to="ann@example.com")  # doctest: +SKIP
        """
        payload, options = self.request(self.arguments.pack(args, kwargs))
        _require_no_wait(options)
        try:
            answer = self.queue.enqueue(payload, **options)
        except InvalidPayload as error:
            raise self.explain(payload, error) from error
        return self.typed(answer)

    def enqueue_many(
        self, calls: Iterable[Mapping[str, Any] | NewJob[Mapping[str, Any]]]
    ) -> list[Enqueued]:
        """Enqueue many calls in few writes: dicts of arguments, or `NewJob`s with own options.

        >>> welcome.enqueue_many([{"to": "ann"}, {"to": "bob"}])  # doctest: +SKIP
        """
        _require_no_wait(self.job_options)
        jobs = CheckedCalls(self, calls)
        try:
            answers = self.queue.enqueue_many(jobs, **jobs.shared)
        except InvalidPayload as error:
            raise self.explain(jobs.latest, error) from error
        return list(map(self.typed, answers))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Enqueue a call and wait for its result, for 30 seconds or as `options(wait=…)` says.

        Raises `Timeout`, `JobFailed` or `JobCancelled`; after a `Timeout` the job may still run.
        """
        draft, wait = self.draft_awaited(self.arguments.pack(args, kwargs))
        return self.load(self.queue.enqueue_draft_and_wait(draft, wait))

    def result(self, id: str, wait: Seconds | None = None) -> R:
        """The result of a job of this task, waiting up to `wait` seconds for it."""
        return self.load(self.queue.result(id, self.wait_for_result(wait)))

    @property
    def aio(self) -> AioTask[P, R]:
        """The same task, for asyncio."""
        return AioTask(self)

    @property
    def queue(self) -> Queue[Any, Any]:
        """The queue of its jobs; opens the app if it is not open."""
        return self.app.queues[self.queue_name]

    # --- for the app ---

    @property
    def is_async(self) -> bool:
        """Whether the function is async."""
        return is_async(self.function)

    def handler(self) -> Handler:
        """The handler that runs the task's jobs, within the app's middleware."""
        if self.is_async:
            handle = wrap_async(self._async_handle(), self.app.async_middleware)
        else:
            handle = wrap(self._handle(), self.app.sync_middleware)
        return Handler(
            kind=self.kind,
            function=functools.wraps(self.function)(handle),
            is_async=self.is_async,
            payload_type=self.arguments.type,
            policy=self.policy,
            resources=self.arguments.resources,
        )

    def request(
        self, arguments: dict[str, Any], own: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], Any]:
        """The arguments and options of a call, as hooks have left them."""
        options = {**self.job_options, **own} if own else self.job_options
        if not self.app.enqueue_hooks:
            return arguments, options
        request = EnqueueRequest(self, dict(arguments), dict(options))
        for hook in self.app.enqueue_hooks:
            hook(request)
        return self.arguments.pack((), request.arguments), request.options

    def draft_awaited(self, arguments: dict[str, Any]) -> tuple[Draft, float]:
        """A job whose result is waited for, and for how many seconds."""
        payload, options = self.request(arguments)
        own = {name: value for name, value in options.items() if name != "wait"}
        if own.pop("connection", None) is not None:
            raise InvalidOption(
                "call cannot wait for a job of an open transaction, which runs after the commit: "
                "enqueue it, commit, and ask for its result"
            )
        wait = some_seconds("wait", options.get("wait", DEFAULT_WAIT))
        try:
            return self.queue.draft_builder.draft_awaited(payload, cast(CallOptions, own)), wait
        except InvalidPayload as error:
            raise self.explain(payload, error) from error

    def wait_for_result(self, wait: Seconds | None) -> Seconds:
        """How long `result` waits: as given, or by the options, or not at all."""
        given: Seconds = self.job_options.get("wait", 0.0) if wait is None else wait
        return given

    def explain(self, arguments: Mapping[str, Any], error: InvalidPayload) -> InvalidPayload:
        """The same error, with the argument that cannot be stored."""
        if isinstance(error, (PayloadTooLarge, InvalidArguments)):
            return error
        return self.arguments.explain(arguments, self.queue.serdes.encode_payload, error)

    def typed(self, answer: Enqueued) -> Enqueued:
        """The answer to an enqueue, with the result of a completed job as its declared type.

        A result that does not fit raises when it is read: the jobs have been stored.
        """
        if not isinstance(answer, Completed) or isinstance(answer, CompletedUndecodable):
            return answer
        try:
            return replace(answer, result=self.load(answer.result))
        except InvalidPayload as error:
            return CompletedUndecodable(answer.id, error)

    def load(self, result: Any) -> R:
        """A stored result as the declared type, or `InvalidPayload`."""
        try:
            loaded: R = self.arguments.result.load(result)
        except ValueError as error:
            raise InvalidPayload(
                f"the result of task {self.kind} does not fit its declared type: {error}"
            ) from error
        return loaded

    def _handle(self) -> Callable[[Job[Any]], Any]:
        call, result = self._call(), self.arguments.result
        return (lambda job: result.dump(call(job))) if result.needs_dump else call

    def _async_handle(self) -> Callable[[Job[Any]], Coroutine[Any, Any, Any]]:
        call, result = self._call(), self.arguments.result
        if not result.needs_dump:
            return call

        async def call_and_dump(job: Job[Any]) -> Any:
            return result.dump(await call(job))

        return call_and_dump

    def _call(self) -> Callable[[Job[Any]], Any]:
        """Calls the function with the arguments of a job."""
        function, arguments = self.function, self.arguments
        if arguments.are_positional:
            return lambda job: function(*astuple(arguments.of(job)))
        return lambda job: function(**arguments.unpack(job))


class CheckedCalls:
    """Many calls of a task, one by one as they are stored."""

    def __init__(
        self,
        task: BaseTask[..., Any],
        calls: Iterable[Mapping[str, Any] | NewJob[Mapping[str, Any]]],
    ) -> None:
        self._task = task
        self._calls = calls
        self.latest: Mapping[str, Any] = {}
        """The arguments of the call that was taken last: if one is rejected, it is this."""

    @property
    def shared(self) -> Any:
        """The options of all calls. After hooks, each call has its own; a connection is shared."""
        options = self._task.job_options
        if not self._task.app.enqueue_hooks:
            return options
        return {name: options[name] for name in options if name == "connection"}

    def __iter__(self) -> Iterator[Any]:
        task, pack = self._task, self._task.arguments.pack_mapping
        hooked = bool(task.app.enqueue_hooks)
        connection = task.job_options.get("connection")
        for call in self._calls:
            if isinstance(call, NewJob):
                given, own = call.payload, call.options
            else:
                given, own = call, EnqueueOptions()
            arguments, options = task.request(pack(given), own)
            self.latest = arguments
            if not hooked:
                yield NewJob(arguments, **own) if own else arguments
                continue
            _require_no_wait(options)
            if options.pop("connection", None) is not connection:
                raise InvalidOption("a hook cannot put one of many jobs into a transaction")
            yield NewJob(arguments, **options)


class Task(BaseTask[P, R]):
    """A plain function as a task. Called directly, it runs here, as in a unit test."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        self.arguments.require_no_injection(args, kwargs)
        result: R = self.function(*args, **kwargs)
        return result


class AsyncTask(BaseTask[P, R]):
    """An async function as a task. Called directly, it runs here, as in a unit test."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        self.arguments.require_no_injection(args, kwargs)
        result: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return result


class AioTask(Generic[P, R]):
    """A task for asyncio: the same methods, to be awaited."""

    def __init__(self, task: BaseTask[P, R]) -> None:
        self._task = task

    def __repr__(self) -> str:
        return f"{self._task!r}.aio"

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Enqueue a call; concurrent callers share one write."""
        task = self._task
        payload, options = task.request(task.arguments.pack(args, kwargs))
        _require_no_wait(options)
        try:
            answer = await self.queue.enqueue(payload, **options)
        except InvalidPayload as error:
            raise task.explain(payload, error) from error
        return task.typed(answer)

    async def enqueue_many(
        self, calls: Iterable[Mapping[str, Any] | NewJob[Mapping[str, Any]]]
    ) -> list[Enqueued]:
        """Enqueue many calls in few writes: dicts of arguments, or `NewJob`s with own options."""
        task = self._task
        _require_no_wait(task.job_options)
        jobs = CheckedCalls(task, calls)
        try:
            answers = await self.queue.enqueue_many(jobs, **jobs.shared)
        except InvalidPayload as error:
            raise task.explain(jobs.latest, error) from error
        return list(map(task.typed, answers))

    async def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Enqueue a call and await its result; no thread waits for it."""
        task = self._task
        draft, wait = task.draft_awaited(task.arguments.pack(args, kwargs))
        return task.load(await self.queue.enqueue_draft_and_wait(draft, wait))

    async def result(self, id: str, wait: Seconds | None = None) -> R:
        """The result of a job of this task, awaited for up to `wait` seconds."""
        return self._task.load(await self.queue.result(id, self._task.wait_for_result(wait)))

    @property
    def queue(self) -> AsyncQueue[Any, Any]:
        """The queue of its jobs, for asyncio."""
        return self._task.app.aio[self._task.queue_name]


def _require_no_wait(options: dict[str, Any]) -> None:
    if "wait" in options:
        raise InvalidOption("wait is for call, which waits for a result; enqueue does not")
