"""Waiting for what another thread or process brings about and gives no signal of."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(holds: Callable[[], T], seconds: float = 10.0, what: str = "it never came to that") -> T:
    """Wait until this is true, looking often, and return it."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, what
        time.sleep(0.005)
    return found
