"""Parameters and responses that several routes share."""

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
        description="The W3C trace of the job; its handler's span continues it.",
    ),
]
QueueName = Annotated[str, QueryParameter(description="The queue.", min_length=1, max_length=512)]
QueueNames = Annotated[
    list[str] | None,
    QueryParameter(name="queue", description="The queue; repeat it to claim from several."),
]
WeightList = Annotated[
    list[float] | None,
    QueryParameter(
        name="weight",
        description="Weight of each queue, in the same order as `queue`.",
    ),
]
Prefetch = Annotated[
    int,
    QueryParameter(ge=1, le=1000, description="Maximum number of unsettled jobs, over all queues."),
]
QueuePath = Annotated[str, PathParameter(description="The queue's name.")]
JobId = Annotated[str, PathParameter(description="The job's id.")]
States = Annotated[
    list[State] | None, QueryParameter(name="state", description="Only jobs in these states.")
]
KindList = Annotated[
    list[str] | None, QueryParameter(name="kind", description="Only jobs of these kinds.")
]
TagList = Annotated[
    list[str] | None, QueryParameter(name="tag", description="Only jobs with all of these tags.")
]
IdList = Annotated[
    list[str] | None, QueryParameter(name="id", description="Only jobs with these ids.")
]
Cursor = Annotated[
    str | None, QueryParameter(description="Cursor of the previous page.", max_length=4096)
]
# Not `ge=0`: Litestar leaves a zero out of the OpenAPI document.
Timestamp = Annotated[float | None, QueryParameter(gt=-1, le=1e11)]
PayloadText = Annotated[
    str | None,
    QueryParameter(description="Only jobs whose payload, as JSON, contains this.", max_length=1000),
]
PageSize = Annotated[int, QueryParameter(ge=1, le=1000)]

Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_DELAY)]
Priority = Annotated[int, msgspec.Meta(ge=0, le=9)]


class Ok(msgspec.Struct):
    """Success."""

    ok: bool = True
