"""Waiting for an effect of another thread or process that gives no signal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT = 10.0
"""Seconds for anything that should take less than one."""


def until(holds: Callable[[], T], seconds: float = 10.0, what: str = "it never came to that") -> T:
    """Poll until this is true, and return it."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, what
        time.sleep(0.005)
    return found
