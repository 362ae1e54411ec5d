"""Webhooks: which receivers get which events, and what became of the deliveries."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Router, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import UNSET, UnsetType

from ackline.events import Act
from ackline.job import State
from ackline.service.auth.caller import Caller
from ackline.service.bodies import Body
from ackline.service.documents import Attempt
from ackline.service.parameters import Cursor, PageSize, States
from ackline.service.webhooks.desk import Desk
from ackline.service.webhooks.webhook import Webhook

LONGEST_OVERLAP = 7 * 86_400.0

Id = Annotated[
    str, PathParameter(description="The webhook's id; `callbacks` for what jobs name themselves.")
]
DeliveryId = Annotated[str, PathParameter(description="The delivery's id, its `webhook-id`.")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
Names = Annotated[list[Name], msgspec.Meta(max_length=100)]
Note = Annotated[str, msgspec.Meta(max_length=500)]


class NewWebhook(Body):
    """A receiver, and which events it gets; what is left out or null is no limit."""

    url: str
    acts: list[Act] | None = None
    states: list[State] | None = None
    """Only events that lead to one of these."""
    queues: Names | None = None
    kinds: Names | None = None
    note: Note = ""


class WebhookChanges(Body):
    """New values; what is left out stays, and null is no limit."""

    url: str | UnsetType = UNSET
    acts: list[Act] | UnsetType | None = UNSET
    states: list[State] | UnsetType | None = UNSET
    queues: Names | UnsetType | None = UNSET
    kinds: Names | UnsetType | None = UNSET
    active: bool | UnsetType = UNSET
    note: Note | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        """What is to be changed."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value is not UNSET}


class RotateBody(Body):
    """For how many seconds the previous secret stays valid beside the new one."""

    overlap: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_OVERLAP)] = 86_400.0


class WebhookDocument(msgspec.Struct, kw_only=True):
    """A webhook; its secrets are shown when they are made, and never again."""

    id: str
    url: str | None
    acts: list[Act] | None
    states: list[State] | None
    queues: list[str] | None
    kinds: list[str] | None
    active: bool
    note: str
    created_at: float
    secret: str | UnsetType = UNSET


class Webhooks(msgspec.Struct):
    """All webhooks of the tenant, the oldest first."""

    webhooks: list[WebhookDocument]


class NewSecret(msgspec.Struct):
    """A secret, shown this once, and until when the one before is good as well."""

    secret: str
    previous_until: float | None


class Sent(msgspec.Struct):
    """A delivery on its way."""

    delivery: str


class DeliveryDocument(msgspec.Struct):
    """One delivery: what is sent, how often it was tried, and what the receiver answered."""

    id: str
    state: State
    type: str
    attempts: int
    created_at: float
    next_at: float | None
    finished_at: float | None
    status: int | None
    history: list[Attempt]
    body: msgspec.Raw


class Deliveries(msgspec.Struct):
    """A page of deliveries; pass `cursor` back for the next one, null ends it."""

    deliveries: list[DeliveryDocument]
    cursor: str | None


@get("/", summary="List webhooks")
async def list_webhooks(caller: NamedDependency[Caller]) -> Webhooks:
    """All webhooks of the tenant, that of its callbacks among them."""
    return Webhooks([_document(webhook) for webhook in await Desk(caller).all()])


@post("/", summary="Make a webhook")
async def make_webhook(
    data: JSONBody[NewWebhook], caller: NamedDependency[Caller]
) -> WebhookDocument:
    """From now on its URL gets events. Only this answer shows the secret."""
    made = await Desk(caller).make(data.url, msgspec.structs.asdict(data))
    return _with_secret(made)


@get("/{id:str}", summary="Show a webhook")
async def get_webhook(id: Id, caller: NamedDependency[Caller]) -> WebhookDocument:
    """A webhook, without its secrets."""
    return _document(await Desk(caller).find(id))


@patch("/{id:str}", summary="Change a webhook")
async def change_webhook(
    id: Id, data: JSONBody[WebhookChanges], caller: NamedDependency[Caller]
) -> WebhookDocument:
    """Change its URL or which events it gets; `active: false` switches it off."""
    return _document(await Desk(caller).change(id, data.changes()))


@delete("/{id:str}", status_code=204, summary="Delete a webhook")
async def delete_webhook(id: Id, caller: NamedDependency[Caller]) -> None:
    """It gets no more events; deliveries that have not been made are dropped."""
    await Desk(caller).delete(id)


@post("/{id:str}/rotate", status_code=200, summary="Rotate a webhook's secret")
async def rotate(id: Id, data: JSONBody[RotateBody], caller: NamedDependency[Caller]) -> NewSecret:
    """A new secret, shown this once. For a while, messages are signed with both."""
    changed = await Desk(caller).rotate(id, data.overlap)
    newest, *before = changed.secrets
    return NewSecret(newest.text, before[0].until if before else None)


@post("/{id:str}/test", status_code=202, summary="Send a test")
async def send_test(id: Id, caller: NamedDependency[Caller]) -> Sent:
    """Send a message of the type `test`; what becomes of it is among the deliveries."""
    return Sent(await Desk(caller).send_test(id))


@get("/{id:str}/deliveries", summary="List deliveries")
async def list_deliveries(
    id: Id,
    caller: NamedDependency[Caller],
    states: States = None,
    cursor: Cursor = None,
    limit: PageSize = 100,
) -> Deliveries:
    """Deliveries made or to be made. A page may have fewer than `limit` although more follow."""
    page = await Desk(caller).deliveries(id, states, cursor, limit)
    return Deliveries([DeliveryDocument(**delivery) for delivery in page.deliveries], page.cursor)


@post("/{id:str}/deliveries/{delivery:str}/redeliver", status_code=202, summary="Deliver again")
async def redeliver(id: Id, delivery: DeliveryId, caller: NamedDependency[Caller]) -> Sent:
    """Try a delivery again that was given up, with all its attempts."""
    await Desk(caller).redeliver(id, delivery)
    return Sent(delivery)


def _document(webhook: Webhook) -> WebhookDocument:
    return WebhookDocument(
        id=webhook.id,
        url=webhook.url,
        acts=_sorted(webhook.acts),
        states=_sorted(webhook.states),
        queues=_sorted(webhook.queues),
        kinds=_sorted(webhook.kinds),
        active=webhook.active,
        note=webhook.note,
        created_at=webhook.created_at,
    )


def _with_secret(webhook: Webhook) -> WebhookDocument:
    document = _document(webhook)
    document.secret = webhook.secrets[0].text
    return document


def _sorted(words: frozenset[Any] | None) -> list[Any] | None:
    return sorted(words) if words is not None else None


router = Router(
    "/webhooks",
    route_handlers=[
        list_webhooks,
        make_webhook,
        get_webhook,
        change_webhook,
        delete_webhook,
        rotate,
        send_test,
        list_deliveries,
        redeliver,
    ],
    tags=["Webhooks"],
)
