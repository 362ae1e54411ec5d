"""Resources of a worker: opened before its first claim, closed after its last handler."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ackline.core.errors import AcklineError, ConfigError, LifespanFailed
from ackline.queue.handlers import import_path_of
from ackline.queue.job import NO_RESOURCES
from ackline.worker.execute.handler_loop import HandlerLoop

logger = logging.getLogger("ackline")

Resources = Mapping[str, Any]
LifespanFunction = Callable[[], Iterator[Resources | None] | AsyncIterator[Resources | None]]


def require_lifespan(function: object) -> None:
    """Raise unless it is a generator function, sync or async, that needs no arguments."""
    generates = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if not generates or not _can_be_called_without_arguments(function):
        name = import_path_of(function) if callable(function) else repr(function)
        raise ConfigError(
            f"a lifespan must be a function without arguments that opens resources, yields them "
            f"once in a dict, and closes them; {name} is not"
        )


class Lifespan:
    """One run of a lifespan function: an async one on the event loop of the handlers."""

    def __init__(self, function: LifespanFunction) -> None:
        require_lifespan(function)
        self.is_async = inspect.isasyncgenfunction(function)
        self._name = f"{function.__module__}.{getattr(function, '__qualname__', function)}"
        self._function: Any = function
        self._context: Any = None

    def enter(
        self, loop: HandlerLoop | None, stopping: Callable[[], bool] = lambda: False
    ) -> Resources:
        """Open the resources; raises `LifespanFailed`, also if the worker has to stop meanwhile."""
        try:
            if self.is_async:
                assert loop is not None
                self._context = contextlib.asynccontextmanager(self._function)()
                resources = loop.run(self._context.__aenter__(), stopping)
            else:
                self._context = contextlib.contextmanager(self._function)()
                resources = self._context.__enter__()
        except BaseException as error:
            self._context = None
            if isinstance(error, AcklineError) or not isinstance(error, Exception):
                raise
            raise LifespanFailed(self._name, error) from error
        if resources is None:
            return NO_RESOURCES
        if not isinstance(resources, Mapping):
            self.exit(loop)
            kind = type(resources).__name__
            raise ConfigError(
                f"lifespan {self._name} must yield a dict of resources by name, not {kind}"
            )
        return MappingProxyType(dict(resources))

    def exit(self, loop: HandlerLoop | None, stopping: Callable[[], bool] = lambda: False) -> None:
        """Close the resources, if they are open; a failure is only logged.

        Async ones are left as they are if `stopping` becomes true.
        """
        context, self._context = self._context, None
        if context is None:
            return
        try:
            if self.is_async:
                assert loop is not None
                loop.run(context.__aexit__(None, None, None), stopping)
            else:
                context.__exit__(None, None, None)
        except Exception:
            logger.exception("lifespan %s failed to close its resources", self._name)


def _can_be_called_without_arguments(function: Any) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    return True
