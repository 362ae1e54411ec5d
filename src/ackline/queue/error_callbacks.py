"""Callbacks for errors beside the jobs: of heartbeats, claims, maintenance and other callbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Self

logger = logging.getLogger("ackline")

ErrorCallback = Callable[[Exception], None]


class ErrorCallbacks:
    """The functions to call when something fails that serves a queue."""

    def __init__(self) -> None:
        self._callbacks: tuple[ErrorCallback, ...] = ()

    def add(self, callback: ErrorCallback) -> ErrorSubscription:
        """Call a function for each error from now on."""
        self._callbacks += (callback,)
        return ErrorSubscription(self, callback)

    def remove(self, callback: ErrorCallback) -> None:
        """Stop calling a function."""
        self._callbacks = tuple(each for each in self._callbacks if each is not callback)

    def report(self, error: Exception) -> None:
        """Call back, in the thread in which the error occurred."""
        for callback in self._callbacks:
            try:
                callback(error)
            except Exception:
                logger.exception("a callback for errors failed")


class ErrorSubscription:
    """A callback for errors; it is called until this is closed."""

    def __init__(self, callbacks: ErrorCallbacks, callback: ErrorCallback) -> None:
        self._callbacks = callbacks
        self._callback = callback

    def close(self) -> None:
        """Stop calling back."""
        self._callbacks.remove(self._callback)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
