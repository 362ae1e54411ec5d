"""Settled outcomes on their way to the store, gathered into batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ackline.core.lifecycle import Transition
from ackline.worker.held import LeasedJob

Settled = tuple[LeasedJob, Transition]


class SettleBuffer:
    """Executors put outcomes in, the claim loop takes batches out."""

    def __init__(self, flush_at: int, flush_now: Callable[[], bool]) -> None:
        self._settled: deque[Settled] = deque()
        self._enough = flush_at
        self._urgent = flush_now
        self._wake: Callable[[], None] = lambda: None
        self._wake_requested = False
        """Whether the claim loop was called and has not looked yet: it will see later ones, too."""

    def on_ready(self, wake: Callable[[], None]) -> None:
        """Call this when a batch is worth a round trip."""
        self._wake = wake

    def put(self, held: LeasedJob, transition: Transition) -> None:
        """Hand in what became of a job; only the first outcome counts, and none of a lost lease."""
        if not held.claim_settling():
            return
        self._settled.append((held, transition))
        size = len(self._settled)
        # The first outcome, too: the claim loop lets it wait for others, but not for long.
        if not self._wake_requested and (size == 1 or size >= self._enough or self._urgent()):
            self._wake_requested = True
            self._wake()

    def rearm(self) -> None:
        """The claim loop is about to look: what comes in from now on is worth another call."""
        self._wake_requested = False

    def put_back(self, batch: list[Settled]) -> None:
        """Return a batch that could not be sent; it is safe to send again."""
        self._settled.extendleft(reversed(batch))

    def take(self, limit: int) -> list[Settled]:
        """The oldest outcomes, up to a limit."""
        batch: list[Settled] = []
        try:
            while len(batch) < limit:
                batch.append(self._settled.popleft())
        except IndexError:
            pass
        return batch

    def __len__(self) -> int:
        return len(self._settled)
