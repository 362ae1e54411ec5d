"""What a worker may be told; the rest is refused when it is made, not at its first job or stop."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from ackline.errors import ConfigError, InvalidOption
from ackline.limits import require_seconds
from ackline.queue import Queue, require_queue
from ackline.worker.running import Hooks


def require_handled(queues: Sequence[Queue[Any, Any]]) -> None:
    """Refuse what is no queue, and one that nobody has a handler for."""
    if not queues:
        raise ConfigError("a worker needs at least one queue")
    for queue in queues:
        require_queue("Worker", queue)
        if not queue.handlers:
            raise ConfigError(f"queue {queue.key} has no handler: add one with @queue.handler")


def require_concurrency(concurrency: object) -> None:
    """Refuse what is no number of handlers."""
    if type(concurrency) is not int or concurrency < 1:
        raise ConfigError(f"concurrency must be a whole number, 1 or more, not {concurrency!r}")


def require_weights(weights: Any, queues: int) -> None:
    """Refuse what does not give each queue a share."""
    one_each = isinstance(weights, Sequence) and len(weights) == queues
    if not one_each or not all(type(one) in (int, float) and 0 < one < inf for one in weights):
        raise ConfigError(f"weights must be one number above 0 for each queue, not {weights!r}")


def require_grace(grace: float | None) -> None:
    """Refuse what is no span of time."""
    if grace is None:
        raise InvalidOption("grace must be a number of seconds, not None; no limit is a large one")
    require_seconds("grace", grace)


def require_hooks(hooks: object) -> None:
    """Refuse what are no hooks; what is in them, they have looked at themselves."""
    if not isinstance(hooks, Hooks):
        raise ConfigError(f"hooks must be ackline.Hooks(before=[…], after=[…]), not {hooks!r}")
