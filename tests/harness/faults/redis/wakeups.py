"""Idle workers lose the connection by which they hear of new jobs."""

from __future__ import annotations

from tests.harness.faults.report import Report
from tests.harness.faults.server import wakeups
from tests.harness.faults.server.order import Order
from tests.harness.servers.redis import RedisServer


def wake_up(order: Order) -> Report:
    """The worker hears of the next job after a cut at once."""
    return _wake_up(order, "")


def wake_up_deaf(order: Order) -> Report:
    """The control: a worker that hears nothing is slow."""
    return _wake_up(order, "no news")


def _wake_up(order: Order, variant: str) -> Report:
    with RedisServer() as server, server.client() as client:
        return wakeups.wake_up(
            order,
            server.url,
            "CLIENT KILL TYPE pubsub",
            lambda: client.client_kill_filter(_type="pubsub", skipme=True),
            variant=variant,
        )
