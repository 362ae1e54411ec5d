"""The DLQ by what went wrong."""

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
    """Groups of dead letters, the largest first; `complete` tells whether all were looked at."""

    groups: list[ErrorGroup]
    complete: bool


@get("/groups", summary="Group the DLQ by error", problems=(404,))
async def list_groups(
    queue: QueuePath,
    caller: NamedDependency[Caller],
    kinds: KindList = None,
    text: PayloadText = None,
) -> ErrorGroups:
    """Errors that differ only in quoted words and numbers are one group, with a sample."""
    line = (await caller.existing_queue(queue, Permission.READ_JOBS)).sync
    which = Filter(states=frozenset({State.FAILED}), kinds=caller.kinds(kinds), text=text)
    return ErrorGroups(*await caller.run_slow(group_errors, line, which))


router = Router("/queues/{queue:str}/dlq", route_handlers=[list_groups], tags=["DLQ"])
