"""The thread that owns the store subscription of a process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from ackline.stores.contract import Store, Subject, Subscription

logger = logging.getLogger("ackline.service")

MAX_WAIT = 60.0

RETRY_AFTER = 1.0
"""Seconds to wait after an error, so as not to spin while the store is down."""


class Subscriber:
    """Owns the subscription, which starts with the first subject."""

    def __init__(
        self, store: Store, on_notification: Callable[[Collection[Subject] | None], None]
    ) -> None:
        self._store = store
        self._on_notification = on_notification
        self._lock = threading.Lock()
        self._changes: dict[Subject, bool] = {}
        """Subjects to be added (True) or removed."""
        self._subjects: set[Subject] = set()
        self._subscription: Subscription | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def add(self, subject: Subject) -> None:
        """Subscribe to a subject; it gets a first notification once it is subscribed."""
        self._change(subject, True)

    def remove(self, subject: Subject) -> None:
        """Unsubscribe from a subject."""
        self._change(subject, False)

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._closed.set()
            if self._subscription is not None:
                self._subscription.wake()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _change(self, subject: Subject, subscribed: bool) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            first = not self._changes
            self._changes[subject] = subscribed
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="ackline subscription", daemon=True
                )
                self._thread.start()
            elif first and self._subscription is not None:
                self._subscription.wake()

    # --- the thread ---

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._subscribe()
            except Exception:
                logger.warning("the store subscription failed, retrying", exc_info=True)
                self._closed.wait(RETRY_AFTER)

    def _subscribe(self) -> None:
        with self._store.subscribe() as subscription:
            with self._lock:
                self._subscription = subscription
            try:
                subscription.add(self._subjects)
                while not self._closed.is_set():
                    self._apply_changes(subscription)
                    subjects = subscription.wait(MAX_WAIT)
                    if subjects is None or subjects:
                        self._on_notification(subjects)
            finally:
                with self._lock:
                    self._subscription = None

    def _apply_changes(self, subscription: Subscription) -> None:
        with self._lock:
            changes, self._changes = self._changes, {}
        if changes:
            added = {subject for subject, subscribed in changes.items() if subscribed}
            removed = changes.keys() - added
            self._subjects = (self._subjects | added) - removed
            subscription.remove(removed)
            subscription.add(added)
