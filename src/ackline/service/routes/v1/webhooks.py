"""Webhooks: receivers, which events they get, and their deliveries."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import UNSET, UnsetType

from ackline.core.events import Act
from ackline.core.job import State
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.http.parameters import Cursor, PageSize, States
from ackline.service.http.request_body import Body
from ackline.service.routes.decorators import delete, get, patch, post
from ackline.service.webhooks.api import (
    DeliveryPage,
    WebhookDocument,
    WebhookService,
    webhook_document,
)

MAX_OVERLAP = 7 * 86_400.0

Id = Annotated[
    str, PathParameter(description="The webhook's id; `callbacks` for the callbacks of jobs.")
]
DeliveryId = Annotated[str, PathParameter(description="The delivery's id, its `webhook-id`.")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
Names = Annotated[list[Name], msgspec.Meta(max_length=100)]
Note = Annotated[str, msgspec.Meta(max_length=500)]


class WebhookBody(Body):
    """A receiver, and which events it gets; omitted or null filters match all."""

    url: str
    acts: list[Act] | None = None
    states: list[State] | None = None
    """Only events that lead to one of these states."""
    queues: Names | None = None
    kinds: Names | None = None
    note: Note = ""


class WebhookPatch(Body):
    """New values; omitted fields stay, and null filters match all."""

    url: str | UnsetType = UNSET
    acts: list[Act] | UnsetType | None = UNSET
    states: list[State] | UnsetType | None = UNSET
    queues: Names | UnsetType | None = UNSET
    kinds: Names | UnsetType | None = UNSET
    active: bool | UnsetType = UNSET
    note: Note | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        """The fields to change."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value is not UNSET}


class RotateBody(Body):
    """How many seconds the previous secret stays valid."""

    overlap: Annotated[float, msgspec.Meta(ge=0, le=MAX_OVERLAP)] = 86_400.0


class WebhookList(msgspec.Struct):
    """All webhooks of the tenant, the oldest first."""

    webhooks: list[WebhookDocument]


class RotatedSecret(msgspec.Struct):
    """A secret, shown only once, and until when the previous one is valid, too."""

    secret: str
    previous_until: float | None


class QueuedDelivery(msgspec.Struct):
    """A queued delivery."""

    delivery: str


def _service(caller: Caller) -> WebhookService:
    caller.require(Permission.WEBHOOKS)
    runtime = caller.runtime
    return WebhookService(runtime.store, caller.tenant, runtime.settings.webhooks)


@get("/", summary="List webhooks")
async def list_webhooks(caller: NamedDependency[Caller]) -> WebhookList:
    """All webhooks of the tenant, including the one of its callbacks."""
    found = await caller.runtime.call(_service(caller).all)
    return WebhookList([webhook_document(webhook) for webhook in found])


@post(
    "/",
    summary="Create a webhook",
    problems=(409,),
    example={
        "url": "https://example.com/hooks/ackline",
        "states": ["completed", "failed"],
        "queues": ["email"],
    },
)
async def create_webhook(
    data: JSONBody[WebhookBody], caller: NamedDependency[Caller]
) -> WebhookDocument:
    """Create a webhook, which gets events from now on. Only this response shows its secret."""
    fields = msgspec.structs.asdict(data)
    created = await caller.runtime.call(_service(caller).create, data.url, fields, data.note)
    return webhook_document(created, with_secret=True)


@get("/{id:str}", summary="Show a webhook", problems=(404,))
async def get_webhook(id: Id, caller: NamedDependency[Caller]) -> WebhookDocument:
    """A webhook, without its secrets."""
    return webhook_document(await caller.runtime.call(_service(caller).find, id))


@patch(
    "/{id:str}",
    summary="Change a webhook",
    problems=(404, 409),
    example={"active": False},
)
async def update_webhook(
    id: Id, data: JSONBody[WebhookPatch], caller: NamedDependency[Caller]
) -> WebhookDocument:
    """Change its URL or which events it gets; `active: false` deactivates it."""
    return webhook_document(await caller.runtime.call(_service(caller).change, id, data.changes()))


@delete(
    "/{id:str}",
    status_code=204,
    summary="Delete a webhook",
    problems=(404, 409),
)
async def delete_webhook(id: Id, caller: NamedDependency[Caller]) -> None:
    """Delete a webhook; its pending deliveries are cancelled."""
    await caller.runtime.call(_service(caller).delete, id)


@post(
    "/{id:str}/rotate",
    status_code=200,
    summary="Rotate a webhook's secret",
    problems=(404, 409),
    example={"overlap": 86400},
)
async def rotate_webhook_secret(
    id: Id, data: JSONBody[RotateBody], caller: NamedDependency[Caller]
) -> RotatedSecret:
    """Create a new secret, shown only once. For a while, messages are signed with both."""
    changed = await caller.runtime.call(_service(caller).rotate, id, data.overlap)
    newest, *before = changed.secrets
    return RotatedSecret(newest.text, before[0].until if before else None)


@post(
    "/{id:str}/test",
    status_code=202,
    summary="Send a test message",
    problems=(404, 409),
)
async def send_test_delivery(id: Id, caller: NamedDependency[Caller]) -> QueuedDelivery:
    """Send a message of the type `test`; its result is among the deliveries."""
    return QueuedDelivery(await caller.runtime.call(_service(caller).send_test, id))


@get("/{id:str}/deliveries", summary="List deliveries", problems=(404,))
async def list_webhook_deliveries(
    id: Id,
    caller: NamedDependency[Caller],
    states: States = None,
    cursor: Cursor = None,
    limit: PageSize = 100,
) -> DeliveryPage:
    """Deliveries, made or pending. A page may be shorter than `limit` although there are more."""
    return await caller.run_slow(_service(caller).deliveries, id, states, cursor, limit)


@post(
    "/{id:str}/deliveries/{delivery:str}/redeliver",
    status_code=202,
    summary="Redeliver",
    problems=(404, 409),
)
async def redeliver_webhook_delivery(
    id: Id, delivery: DeliveryId, caller: NamedDependency[Caller]
) -> QueuedDelivery:
    """Retry a delivery from the DLQ, with all its attempts."""
    await caller.runtime.call(_service(caller).redeliver, id, delivery, caller.by)
    return QueuedDelivery(delivery)


router = Router(
    "/webhooks",
    route_handlers=[
        list_webhooks,
        create_webhook,
        get_webhook,
        update_webhook,
        delete_webhook,
        rotate_webhook_secret,
        send_test_delivery,
        list_webhook_deliveries,
        redeliver_webhook_delivery,
    ],
    tags=["Webhooks"],
)
