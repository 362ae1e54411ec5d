"""Several private servers that belong together."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import Self


class ServerGroup(ABC):
    """Starts all of them, or none; ends them in reverse."""

    def __init__(self) -> None:
        self._started = contextlib.ExitStack()

    def start(self) -> Self:
        """Start them, and wait until they work together."""
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._started = stack.pop_all()
        return self

    @abstractmethod
    def _start(self, stack: contextlib.ExitStack) -> None:
        """Enter each server into the stack, and wait until they agree."""

    def stop(self) -> None:
        """End all of it."""
        self._started.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()
