"""What can go wrong between a Spark query and a store.

AcklineError
├── EventsDropped
│   └── StreamBehind   events were dropped before the stream has read them
├── LakeClaimed        another run of this lake is at work
├── LakeDamaged        files of a lake are missing or broken
├── StreamFenced       another driver reads this stream now; this one must stop
└── StreamMismatch     the checkpoint does not match the store
"""

from __future__ import annotations

import shlex

from ackline.core.errors import AcklineError, EventsDropped
from ackline.spark.queue_names import queue_as_text


class StreamBehind(EventsDropped):
    """A journal has dropped events that the stream has not read; the stream stays where it is."""

    def __init__(self, queue: str, after: str, kept: str) -> None:
        AcklineError.__init__(
            self,
            f"queue {queue!r} has dropped events after cursor {after}, which the stream has not "
            f"read. To go on without them, with those after {kept}, set the option "
            f"skipDropped={queue_as_text(queue)}, or run `ackline pipeline run --skip-dropped "
            f"{shlex.quote(queue)}` once; "
            "run it more often or raise the queue's max_journal so that it does not come to this",
        )
        self.cursor = kept


class LakeClaimed(AcklineError):
    """Another run of the lake is at work, or has taken it over; this one changes nothing more."""


class LakeDamaged(AcklineError):
    """Files that a lake needs are missing or broken; nothing was removed."""


class StreamFenced(AcklineError):
    """Another driver has taken the stream over; nothing was changed by this one."""

    def __init__(self, stream: str) -> None:
        super().__init__(
            f"stream {stream!r} was taken over by another driver, or forgotten: this one stops, "
            "and what it holds is left to the other. Run one query for each streamId"
        )


class StreamMismatch(AcklineError):
    """The checkpoint does not match the store; nothing was changed."""
