"""The garbage collector, paused while many objects are being created."""

from __future__ import annotations

import gc
import threading
from types import TracebackType


class GcPause:
    """Pauses the collector while large texts are read, in any number of threads.

    None of a million new objects is garbage, and checking takes ten times as long as creating them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0

    def __enter__(self) -> None:
        self._count(1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self._readers += change
            (gc.disable if self._readers else gc.enable)()


gc_paused = GcPause()
