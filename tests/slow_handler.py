"""A handler that waits for a signal if the payload is `slow`."""

from __future__ import annotations

import threading
from typing import Any

SOON = 10.0


class SlowHandler:
    """Records its runs and the most at once; returns the name of its thread."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.began, self.go_on = threading.Event(), threading.Event()
        self.running = self.most = 0
        self._lock = threading.Lock()

    def __call__(self, job: Any) -> str:
        with self._lock:
            self.ran.append(job.id)
            self.running += 1
            self.most = max(self.most, self.running)
        if job.payload == "slow":
            self.began.set()
            self.go_on.wait(SOON)
        with self._lock:
            self.running -= 1
        return threading.current_thread().name
