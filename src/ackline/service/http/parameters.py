"""Parameters that several routes have."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar.params import HeaderParameter, PathParameter, QueryParameter

from ackline.core.job import State
from ackline.core.limits import MAX_DELAY

Traceparent = Annotated[
    str | None,
    HeaderParameter(
        name="traceparent",
        description="The trace that the job belongs to (W3C); its handler's span continues it.",
    ),
]
QueueName = Annotated[str, QueryParameter(description="Which queue.", min_length=1, max_length=512)]
QueueNames = Annotated[
    list[str] | None,
    QueryParameter(name="queue", description="Which queue; repeat it to take from several."),
]
WeightList = Annotated[
    list[float] | None,
    QueryParameter(
        name="weight",
        description="A queue's share beside the others: one for each `queue`, in their order.",
    ),
]
Prefetch = Annotated[
    int,
    QueryParameter(
        ge=1, le=1000, description="So many may be unsettled at once, of all queues together."
    ),
]
Queue = Annotated[str, PathParameter(description="The queue's name.")]
JobId = Annotated[str, PathParameter(description="The job's id.")]
States = Annotated[
    list[State] | None, QueryParameter(name="state", description="Only jobs in these states.")
]
KindList = Annotated[
    list[str] | None, QueryParameter(name="kind", description="Only jobs of these kinds.")
]
IdList = Annotated[
    list[str] | None, QueryParameter(name="id", description="Only jobs with these ids.")
]
Cursor = Annotated[
    str | None, QueryParameter(description="Where the page before ended.", max_length=4096)
]
# Not `ge=0`: a zero would be left out of the description.
Timestamp = Annotated[float | None, QueryParameter(gt=-1, le=1e11)]
PayloadText = Annotated[
    str | None,
    QueryParameter(description="A piece of the payload, as JSON writes it.", max_length=1000),
]
PageSize = Annotated[int, QueryParameter(ge=1, le=1000)]

Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_DELAY)]
Priority = Annotated[int, msgspec.Meta(ge=0, le=9)]
