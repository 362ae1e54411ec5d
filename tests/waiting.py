"""Wait for an effect of another thread or process that sends no signal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT = 10.0
"""Timeout for steps that normally take less than a second."""


def until(
    holds: Callable[[], T], seconds: float = 10.0, what: str = "the condition did not become true"
) -> T:
    """Poll until the result is true, and return it."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, what
        time.sleep(0.005)
    return found
