"""Which problems each operation can answer with: what its description promises, and no more.

The tests compare every response that they get with this.
"""

from __future__ import annotations

import http
from collections.abc import Iterable, Mapping
from typing import Any

from ackline.service.problems import MEDIA_TYPE

OPEN_TO_ALL = frozenset({"health_livez"})
HALF_OPEN = frozenset({"health_readyz"})
"""Operations that need no authentication, or work without it too."""

MEANT: Mapping[int, str] = {
    400: "A parameter or the body cannot be read.",
    401: "The token or the API key is missing, or not valid.",
    403: "The token is not for this act, queue or kind.",
    404: "It does not exist, or not for this caller.",
    408: "The body did not arrive in time.",
    409: "Things are not as the caller assumes; nothing was changed.",
    410: "Events after this cursor are no longer kept; `cursor` is where to go on.",
    412: "It is no longer as it was seen; nothing was changed.",
    413: "The body, a payload or a batch is too large.",
    415: "The body is not JSON.",
    422: "It can be read, but a name, a value or a combination is not allowed.",
    429: "Too much, too soon; `Retry-After` says when to try again. Nothing was done.",
    503: "The store cannot be reached, or the service is about to stop; try again.",
    504: "The result was not there in time; the job goes on.",
    507: "The store is full, or the queue has reached its own limit. Nothing was stored.",
}

OWN: Mapping[str, tuple[int, ...]] = {
    "dead_letters_delete_letter": (404,),
    "dead_letters_get_letter": (404,),
    "dead_letters_list_letters": (404,),
    "dead_letters_purge": (404,),
    "dead_letters_requeue": (404, 409),
    "keys_delete_key": (404,),
    "keys_get_key": (404,),
    "keys_set_key": (409,),
    "messages_ack": (404, 409),
    "messages_enqueue": (409,),
    "messages_nack": (404, 409),
    "messages_stats": (404,),
    "messages_touch": (404, 409),
    "v1_bulk_act_on_all": (404, 409),
    "v1_dlq_list_groups": (404,),
    "v1_enqueue_enqueue": (409,),
    "v1_enqueue_enqueue_many": (409,),
    "v1_events_list_events": (410,),
    "v1_jobs_cancel": (404, 409),
    "v1_jobs_delete_job": (404, 412),
    "v1_jobs_edit": (404, 409, 412),
    "v1_jobs_get_job": (404,),
    "v1_jobs_get_result": (404, 409, 504),
    "v1_jobs_list_jobs": (404,),
    "v1_jobs_move": (404, 409),
    "v1_jobs_redrive": (404, 409),
    "v1_keys_delete_key": (404,),
    "v1_keys_get_key": (404,),
    "v1_keys_set_key": (409,),
    "v1_queues_configure": (404, 412),
    "v1_queues_delete_queue": (404, 409, 412),
    "v1_queues_get_queue": (404,),
    "v1_queues_pause": (404,),
    "v1_queues_purge": (404,),
    "v1_queues_queue_workers": (404,),
    "v1_queues_rename_queue": (404, 409),
    "v1_queues_resume": (404,),
    "v1_schedules_delete_schedule": (404, 412),
    "v1_schedules_get_schedule": (404,),
    "v1_schedules_put_schedule": (404, 409, 412),
    "v1_transfer_export_jobs": (404,),
    "v1_transfer_import_jobs": (408, 413, 415),
    "v1_webhooks_change_webhook": (404, 409),
    "v1_webhooks_delete_webhook": (404, 409),
    "v1_webhooks_get_webhook": (404,),
    "v1_webhooks_list_deliveries": (404,),
    "v1_webhooks_make_webhook": (409,),
    "v1_webhooks_redeliver": (404, 409),
    "v1_webhooks_rotate": (404, 409),
    "v1_webhooks_send_test": (404, 409),
}
"""Statuses of an operation, in addition to those that all of its sort have."""


def problems_of(operation: Mapping[str, Any], method: str) -> list[int]:
    """The statuses of the problems that an operation has."""
    name = operation["operationId"]
    return sorted({*_of_sort(operation, method), *OWN.get(name, ())})


def _of_sort(operation: Mapping[str, Any], method: str) -> Iterable[int]:
    yield 400
    if operation["operationId"] in OPEN_TO_ALL:
        return
    yield from (401, 429)
    if operation["operationId"] in HALF_OPEN:
        return
    yield from (403, 503)
    if "parameters" in operation or "requestBody" in operation:
        yield 422
    if "requestBody" in operation:
        yield from (408, 413, 415)
    if method != "get":
        yield 507


def reference(status: int) -> dict[str, str]:
    """A reference to the response of this status."""
    return {"$ref": f"#/components/responses/{_name(status)}"}


def responses() -> dict[str, Any]:
    """The responses of all problems, by name."""
    return {_name(status): _response(status, meaning) for status, meaning in MEANT.items()}


def _name(status: int) -> str:
    return http.HTTPStatus(status).phrase.replace(" ", "")


def _response(status: int, meaning: str) -> dict[str, Any]:
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    response: dict[str, Any] = {"description": meaning, "content": {MEDIA_TYPE: problem}}
    if status in (429, 503):
        response["headers"] = {
            "Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}
        }
    return response
