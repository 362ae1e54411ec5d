"""Groups, of which only so many jobs may be processing at once."""

from __future__ import annotations

from ackline.core.job import State


class FreedGroups(dict[str, int]):
    """The groups whose parked jobs may go on, each with how many of its leases have ended."""

    def add(self, group: str | None, source: State, to: State | None) -> None:
        """A job of this group has left its state, or its place in line; None is no group."""
        if group is None:
            return
        if source is State.PROCESSING and to is not State.PROCESSING:
            self[group] = self.get(group, 0) + 1
        elif source is State.QUEUED:
            # Another job of its group may be the next one now.
            self.setdefault(group, 0)
