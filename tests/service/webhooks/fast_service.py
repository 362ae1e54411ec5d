"""A service with fast webhook loops, whose deliveries tests can wait for."""

from __future__ import annotations

from typing import Any

from tests.service.conftest import Live
from tests.service.webhook_receiver import Receiver
from tests.waiting import until

from ackline.core.job import LIVE
from ackline.maintenance import MaintenanceLoop
from ackline.service import Settings
from ackline.service.background.loops import QueueDiscovery
from ackline.service.runtime import Runtime
from ackline.service.webhooks import delivery
from ackline.service.webhooks.dispatcher import Dispatcher
from ackline.service.webhooks.settings import WebhookSettings

HERE = WebhookSettings(
    networks=("127.0.0.0/8",), plain_http=True, timeout=0.5, backoff=(0.02, 0.02)
)
EVERY = 0.02
"""Seconds between two steps of each loop."""


def start(**settings: Any) -> Live:
    """A service that delivers events immediately."""
    options = {"store": "memory://", "webhooks": HERE, "drain": 0.0, **settings}
    runtime = Runtime.from_settings(Settings(**options))
    for loop in runtime.background.loops:
        loop.interval = EVERY
    return Live(runtime)


def subscribe(live: Live, receiver: Receiver, **filters: Any) -> dict[str, Any]:
    return live.api.post("/v1/webhooks", {"url": receiver.url, **filters}, 201)  # type: ignore[no-any-return]


def deliveries(live: Live, id: str, **query: Any) -> list[dict[str, Any]]:
    return live.api.get(f"/v1/webhooks/{id}/deliveries", **query)["deliveries"]  # type: ignore[no-any-return]


def deliver_all(live: Live, receiver: Receiver) -> int:
    """The number of requests once everything so far is delivered."""
    for role in (QueueDiscovery, Dispatcher):
        [loop] = [loop for loop in live.runtime.background.loops if isinstance(loop, role)]
        step_whole(loop)
    sent = delivery.open_queue(live.runtime.store)
    until(lambda: not any(sent.counts()[state] for state in LIVE))
    return len(receiver.received)


def step_whole(loop: MaintenanceLoop) -> None:
    """Wait for a step that starts from now on; the current one may have missed the change."""
    before = loop.stats().runs
    until(lambda: loop.stats().runs > before + 1)
