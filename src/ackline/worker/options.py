"""A worker's options, checked when it is made rather than at its first job or its stop."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from ackline.core.errors import ConfigError, InvalidOption
from ackline.core.limits import require_seconds
from ackline.queue import Queue, require_queue
from ackline.worker.handler_outcome import Hooks


def require_handlers(queues: Sequence[Queue[Any, Any]]) -> None:
    """Refuse anything but queues, and a queue without a handler."""
    if not queues:
        raise ConfigError("a worker needs at least one queue")
    for queue in queues:
        require_queue("Worker", queue)
        if not queue.handlers:
            raise ConfigError(f"queue {queue.key} has no handler: add one with @queue.handler")


def require_concurrency(concurrency: object) -> None:
    """Refuse anything but a whole number of handlers, 1 or more."""
    if type(concurrency) is not int or concurrency < 1:
        raise ConfigError(f"concurrency must be a whole number, 1 or more, not {concurrency!r}")


def require_weights(weights: Any, queues: int) -> None:
    """Refuse anything but one number above 0 for each queue."""
    one_each = isinstance(weights, Sequence) and len(weights) == queues
    if not one_each or not all(type(each) in (int, float) and 0 < each < inf for each in weights):
        raise ConfigError(f"weights must be one number above 0 for each queue, not {weights!r}")


def require_grace(grace: float | None) -> None:
    """Refuse anything but a number of seconds."""
    if grace is None:
        raise InvalidOption("grace must be a number of seconds, not None; no limit is a large one")
    require_seconds("grace", grace)


def require_hooks(hooks: object) -> None:
    """Refuse anything but `Hooks`, which check their content themselves."""
    if not isinstance(hooks, Hooks):
        raise ConfigError(f"hooks must be ackline.Hooks(before=[…], after=[…]), not {hooks!r}")
