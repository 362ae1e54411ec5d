"""Dead letters, all or those of one group: counted, redriven or deleted in stints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ackline import lifecycle
from ackline.job import Record
from ackline.service.error_groups import fingerprint
from ackline.service.slow_work import Steps
from ackline.service.stints import Done, Place, Stint

Remedy = Literal["redrive", "delete"]


class Letters(msgspec.Struct, frozen=True):
    """The dead letters that match, of one group if it is named."""

    stint: Stint
    group: str | None = None

    def count(self) -> Steps[Done]:
        """How many there are."""
        return self.stint.on_pages(lambda jobs, _: len(self._mine(jobs)))

    def redrive(self, rate: float | None, by: str) -> Steps[Done]:
        """Redrive those that were there when it began.

        With a `rate`, at most that many become due per second, to spare what they call.
        """

        def act(jobs: Sequence[Record], place: Place) -> int:
            acts = [
                lifecycle.redrive(job.id, (place.done + index) / rate if rate else 0.0, by=by)
                for index, job in enumerate(self._mine(jobs))
            ]
            return sum(verdict.applied for verdict in self.stint.queue.apply(acts))

        return self.stint.on_pages(act)

    def delete(self, by: str) -> Steps[Done]:
        """Delete those that were there when it began."""
        return self.stint.on_pages(lambda jobs, _: self.stint.purge(self._mine(jobs), by))

    def _mine(self, jobs: Sequence[Record]) -> list[Record]:
        return [job for job in jobs if self.group is None or fingerprint(job) == self.group]
