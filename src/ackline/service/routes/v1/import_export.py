"""Import and export of jobs as JSON lines."""

from __future__ import annotations

from typing import Any

from litestar import Request, Router
from litestar.di import NamedDependency
from litestar.response import Stream

from ackline.core.job import State
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.http.body_memory import received_body
from ackline.service.http.parameters import KindList, PayloadText, QueuePath, States
from ackline.service.http.problems import WrongMediaType
from ackline.service.http.request_body import is_json
from ackline.service.operations.import_export import BodyImport, ImportResult, export_lines
from ackline.service.routes.decorators import get, post
from ackline.stores.contract import Filter

NDJSON = "application/x-ndjson"
ACCEPTED_TYPES = frozenset(
    {
        NDJSON, "application/jsonl", "text/plain", "application/octet-stream",
        "", "application/x-www-form-urlencoded",
    }
)  # fmt: skip
"""Including defaults of clients: curl sends the last one."""


@post(
    "/import",
    status_code=200,
    summary="Import jobs",
    request_max_body_size=None,
    problems=(408, 413, 415),
)
async def import_jobs(
    queue: QueuePath, request: Request[Any, Any, Any], caller: NamedDependency[Caller]
) -> ImportResult:
    """Enqueue a job for each line, as they arrive; the body may have any length.

    Each line is a job as for `POST …/jobs`, or as in an export: then it is enqueued again with its
    id, payload, priority, due time and options. The first bad line ends the import; the lines
    before are stored. If all lines have ids, the import can be repeated.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in ACCEPTED_TYPES and not is_json(media_type):
        raise WrongMediaType(f"the body must be {NDJSON}, but it is {media_type!r}")
    job_queue = caller.queue(queue, Permission.ENQUEUE)
    return await BodyImport(caller, job_queue, received_body(request.scope)).read(request.stream())


@get("/export", summary="Export jobs", media_type=NDJSON, problems=(404,))
async def export_jobs(
    queue: QueuePath,
    caller: NamedDependency[Caller],
    states: States = None,
    kinds: KindList = None,
    text: PayloadText = None,
) -> Stream:
    """All jobs that match, one per line, in the format of an import.

    Each job that exists during the whole export is exported once, even while workers change jobs;
    those that change meanwhile come last.
    """
    job_queue = await caller.existing_queue(queue, Permission.READ_JOBS)
    job_filter = Filter(states=frozenset(states or State), kinds=caller.kinds(kinds), text=text)
    return Stream(export_lines(caller, job_queue, job_filter), media_type=NDJSON)


router = Router("/queues/{queue:str}", route_handlers=[import_jobs, export_jobs], tags=["Transfer"])
