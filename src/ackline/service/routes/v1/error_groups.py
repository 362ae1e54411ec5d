"""The DLQ, grouped by error."""

from __future__ import annotations

import msgspec
from litestar import Router
from litestar.di import NamedDependency

from ackline.core.job import State
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.http.parameters import KindList, PayloadText, QueuePath
from ackline.service.routes.decorators import get
from ackline.service.views.error_groups import ErrorGroup, group_errors
from ackline.stores.contract import Filter


class ErrorGroups(msgspec.Struct):
    """Error groups, the largest first; `complete` says whether the whole DLQ was read."""

    groups: list[ErrorGroup]
    complete: bool


@get("/groups", summary="Group the DLQ by error", problems=(404,))
async def list_error_groups(
    queue: QueuePath,
    caller: NamedDependency[Caller],
    kinds: KindList = None,
    text: PayloadText = None,
) -> ErrorGroups:
    """Groups of errors that differ only in quoted words and numbers, with a sample of each."""
    job_queue = (await caller.existing_queue(queue, Permission.READ_JOBS)).sync
    job_filter = Filter(states=frozenset({State.FAILED}), kinds=caller.kinds(kinds), text=text)
    return ErrorGroups(*await caller.run_slow(group_errors, job_queue, job_filter))


router = Router("/queues/{queue:str}/dlq", route_handlers=[list_error_groups], tags=["DLQ"])
