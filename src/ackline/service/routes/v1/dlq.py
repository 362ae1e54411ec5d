"""The DLQ by what went wrong."""

from __future__ import annotations

import msgspec
from litestar import Router
from litestar.di import NamedDependency

from ackline.job import State
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.error_groups import ErrorGroup, groups_in
from ackline.service.handlers import get
from ackline.service.parameters import KindList, Queue, Text
from ackline.stores.base import Filter


class ErrorGroups(msgspec.Struct):
    """Groups of dead letters, the largest first; `complete` tells whether all were looked at."""

    groups: list[ErrorGroup]
    complete: bool


@get("/groups", summary="Group the DLQ by error", problems=(404,))
async def list_groups(
    queue: Queue, caller: NamedDependency[Caller], kinds: KindList = None, text: Text = None
) -> ErrorGroups:
    """Errors that differ only in quoted words and numbers are one group, with a sample."""
    line = (await caller.known_queue(queue, Access.READ_JOBS)).sync
    which = Filter(states=frozenset({State.FAILED}), kinds=caller.kinds(kinds), text=text)
    return ErrorGroups(*await caller.slowly(groups_in, line, which))


router = Router("/queues/{queue:str}/dlq", route_handlers=[list_groups], tags=["DLQ"])
