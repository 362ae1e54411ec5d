"""Groups, whose jobs share a limit of how many may be processing."""

from __future__ import annotations

from ackline.core.job import State


class FreedGroups(dict[str, int]):
    """The groups with parked jobs to check, each with how many of its leases have ended."""

    def add(self, group: str | None, source: State, to: State | None) -> None:
        """Record that a job of this group has left its state or position; None is no group."""
        if group is None:
            return
        if source is State.PROCESSING and to is not State.PROCESSING:
            self[group] = self.get(group, 0) + 1
        elif source is State.QUEUED:
            # Another job of its group may be the next one now.
            self.setdefault(group, 0)
