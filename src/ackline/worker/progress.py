"""Stores the progress that handlers report."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ackline.core import lifecycle
from ackline.core.errors import StoreError
from ackline.queue import Job, Queue

logger = logging.getLogger("ackline")

WRITE_INTERVAL = 0.5
"""Seconds between two writes."""


class ProgressWriter:
    """Stores the progress of one queue's jobs: the last value of each, at most twice a second.

    Its thread runs only while there is something to store.
    """

    def __init__(self, queue: Queue[Any, Any]) -> None:
        self._queue = queue
        self.unsaved: dict[Job[Any], bytes] = {}
        self._changing = threading.Lock()
        self._writing = threading.Lock()
        """Locked during a write, so that an older value does not overwrite a newer one."""
        self._running = False

    @property
    def pending(self) -> bool:
        """Whether a value is unsaved or being stored; outcomes must wait for it."""
        # In this order: a value that is no longer unsaved is being stored, until the lock is free.
        return bool(self.unsaved) or self._writing.locked()

    def put(self, job: Job[Any], progress: bytes) -> None:
        """Have a value stored soon, instead of any that is still unsaved."""
        with self._changing:
            self.unsaved[job] = progress
            if self._running:
                return
            # In the lock: if no thread can be started now, the next value tries again.
            name = f"ackline progress {self._queue.key}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
            self._running = True

    def flush(self, jobs: Iterable[Job[Any]]) -> None:
        """Store the unsaved progress of jobs whose outcomes are about to be stored."""
        with self._writing:
            with self._changing:
                taken = {job: self.unsaved.pop(job) for job in jobs if job in self.unsaved}
            self._write(taken)

    def _run(self) -> None:
        while True:
            with self._writing:
                with self._changing:
                    taken, self.unsaved = self.unsaved, {}
                    if not taken:
                        self._running = False
                        return
                self._write(taken)
            time.sleep(WRITE_INTERVAL)

    def _write(self, progress: Mapping[Job[Any], bytes]) -> None:
        transitions = [
            lifecycle.progress(job.record, value)
            for job, value in progress.items()
            # In the store, an open transaction may have locked the job.
            if job.settled_in_transaction is None
        ]
        if not transitions:
            return
        try:
            self._queue.apply(transitions)
        except Exception as error:
            # It must neither hold up the outcomes nor end the thread.
            logger.warning(
                "the progress of %d jobs of %s could not be stored: %s",
                len(transitions),
                self._queue.key,
                error,
                exc_info=not isinstance(error, StoreError),
            )
