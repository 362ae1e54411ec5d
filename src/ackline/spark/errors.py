"""Errors of Spark queries and lakes.

AcklineError
├── EventsDropped
│   └── StreamBehind   events were dropped before the stream has read them
├── LakeClaimed        another run is writing to this lake
├── LakeDamaged        files of a lake are missing or broken
├── StreamFenced       another driver has taken over this stream
└── StreamMismatch     the checkpoint does not match the store
"""

from __future__ import annotations

import shlex

from ackline.core.errors import AcklineError, EventsDropped
from ackline.spark.queue_names import queue_as_text


class StreamBehind(EventsDropped):
    """A journal has dropped events that the stream has not read; its position is unchanged."""

    def __init__(self, queue: str, after: str, kept: str) -> None:
        AcklineError.__init__(
            self,
            f"queue {queue!r} has dropped events after cursor {after}, which the stream has not "
            f"read. To go on without them, with those after {kept}, set the option "
            f"skipDropped={queue_as_text(queue)}, or run `ackline pipeline run --skip-dropped "
            f"{shlex.quote(queue)}` once; "
            "to avoid this, run it more often or raise the queue's max_journal",
        )
        self.cursor = kept


class LakeClaimed(AcklineError):
    """Another run is writing to the lake or has taken it over; this one changes nothing more."""


class LakeDamaged(AcklineError):
    """Files that a lake needs are missing or broken; nothing was removed."""


class StreamFenced(AcklineError):
    """Another driver has taken over the stream; this one changes nothing more."""

    def __init__(self, stream: str) -> None:
        super().__init__(
            f"stream {stream!r} was taken over by another driver, or forgotten: this one stops "
            "and leaves its jobs to the other. Run one query for each streamId"
        )


class StreamMismatch(AcklineError):
    """The checkpoint does not match the store; nothing was changed."""
