"""Tools for users' tests and for third-party stores."""

from ackline.core.clock import ManualClock
from ackline.testing.modes import (
    Drained,
    assert_enqueued,
    drain,
    inline,
    memory_queues,
    refute_enqueued,
)

__all__ = [
    "Drained",
    "ManualClock",
    "assert_enqueued",
    "drain",
    "inline",
    "memory_queues",
    "refute_enqueued",
]
