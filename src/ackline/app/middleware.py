"""Middleware: functions around each task, the first one outermost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ackline.core.errors import ConfigError
from ackline.core.outcome import OUTCOMES
from ackline.queue import Job
from ackline.queue.handlers import import_path_of

Handle = Callable[[Job[Any]], Any]
HandleAsync = Callable[[Job[Any]], Awaitable[Any]]
Middleware = Callable[[Job[Any], Callable[[], Any]], Any]


def wrap(handle: Handle, middleware: Sequence[Middleware]) -> Handle:
    """A handler within sync middleware."""
    for each in reversed(middleware):
        handle = _around(each, handle)
    return handle


def wrap_async(handle: HandleAsync, middleware: Sequence[Middleware]) -> HandleAsync:
    """An async handler within async middleware."""
    for each in reversed(middleware):
        handle = _around_async(each, handle)
    return handle


def _around(middleware: Middleware, handle: Handle) -> Handle:
    def run(job: Job[Any]) -> Any:
        called = False

        def call_next() -> Any:
            nonlocal called
            called = True
            return handle(job)

        result = middleware(job, call_next)
        _require_call(middleware, called, result)
        return result

    return run


def _around_async(middleware: Middleware, handle: HandleAsync) -> HandleAsync:
    async def run(job: Job[Any]) -> Any:
        called = False

        async def call_next() -> Any:
            nonlocal called
            called = True
            return await handle(job)

        result = await middleware(job, call_next)
        _require_call(middleware, called, result)
        return result

    return run


def _require_call(middleware: Middleware, called: bool, result: Any) -> None:
    # The job would be completed without having run.
    if not called and not isinstance(result, OUTCOMES):
        raise ConfigError(
            f"middleware {import_path_of(middleware)} returned without awaiting or calling "
            "call_next(); to skip the task, return or raise an outcome: ackline.Cancel(reason)"
        )
