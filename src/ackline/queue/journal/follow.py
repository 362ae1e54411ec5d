"""Following the journal: as an iterator, or by callback."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self

from ackline.core.config import suggestion_for
from ackline.core.errors import TRANSIENT_ERRORS, EventsDropped, InvalidOption, StoreClosed
from ackline.core.events import Act, Event
from ackline.core.job import QueueKey, State
from ackline.queue.error_callbacks import ErrorCallbacks
from ackline.stores.contract import Store

logger = logging.getLogger("ackline")

PAGE_SIZE = 500
MAX_WAIT = 1.0


def follow(
    store: Store, key: QueueKey, after: str | None, seconds: float | None
) -> Iterator[Event]:
    """Events after a cursor, in order; ends after `seconds` without more (None: never)."""
    with store.listen([key], "changes") as listener:
        idle_since = time.monotonic()
        while True:
            events = store.events(key, after, PAGE_SIZE)
            yield from events
            if events:
                after, idle_since = events[-1].cursor, time.monotonic()
                continue
            left = MAX_WAIT
            if seconds is not None:
                left = min(left, seconds - (time.monotonic() - idle_since))
            if left <= 0:
                return
            listener.wait(left)


ERROR: Literal["error"] = "error"
"""The type of callbacks for errors, which are not in the journal."""


def event_type(what: State | Act | str, callback: Callable[..., Any]) -> State | Act:
    """The state or act of this name; raises if there is none, or the callback cannot be called."""
    require_callback(callback)
    for known in (State, Act):
        with contextlib.suppress(ValueError):
            return known(what)
    names = sorted({*State, *Act, ERROR})
    raise InvalidOption(
        f"{what!r} is neither a state nor an act ({', '.join(names)})"
        f"{suggestion_for([str(what)], names)}"
    )


def require_callback(callback: Callable[..., Any]) -> None:
    """Raise for a callback that cannot be called."""
    if not callable(callback):
        raise InvalidOption(f"the callback must be a function of an event, not {callback!r}")


class Watcher:
    """Calls a function for events of one type, in its own thread, until it is closed."""

    def __init__(
        self,
        store: Store,
        key: QueueKey,
        event_type: State | Act,
        callback: Callable[[Event], None],
        errors: ErrorCallbacks,
    ) -> None:
        self._store = store
        self._key = key
        self._event_type = event_type
        self._callback = callback
        self._errors = errors
        self._pid = os.getpid()
        self._closed = threading.Event()
        self._listener = store.listen([key], "changes")
        self._cursor = store.info().cursor
        self._thread = threading.Thread(target=self._run, name=f"watch {key}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop calling back."""
        if self._pid != os.getpid():
            return  # after a fork, the thread is the parent's
        self._closed.set()
        self._listener.wake()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self._listener.close()

    def _run(self) -> None:
        logged = False
        while not self._closed.is_set():
            try:
                events = self._next()
                logged = False
            except EventsDropped as error:
                logger.warning("callbacks for %s events were skipped: %s", self._event_type, error)
                self._errors.report(error)
                self._cursor = error.cursor
                continue
            except StoreClosed:
                logger.warning("callbacks for %s events end: the store is closed", self._event_type)
                return
            except Exception as error:
                if not logged:
                    logger.warning(
                        "the journal of %s could not be read; trying again: %s",
                        self._key,
                        error,
                        exc_info=None if isinstance(error, TRANSIENT_ERRORS) else error,
                    )
                    self._errors.report(error)
                logged = True
                self._closed.wait(MAX_WAIT)
                continue
            for event in events:
                self._cursor = event.cursor
                self._call(event)

    def _next(self) -> Sequence[Event]:
        """The events since the last call; waits a while if there are none."""
        events = self._store.events(self._key, self._cursor, PAGE_SIZE)
        if not events:
            self._listener.wait(MAX_WAIT)
        return events

    def _call(self, event: Event) -> None:
        if self._closed.is_set() or self._event_type not in (event.reached, event.act):
            return
        try:
            self._callback(event)
        except Exception as error:
            logger.exception("the callback for %s events of %s failed", self._event_type, self._key)
            self._errors.report(error)
