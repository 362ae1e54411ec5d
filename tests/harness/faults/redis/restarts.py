"""The server is killed and started again, with a log that keeps everything, most, or nothing."""

from __future__ import annotations

from tests.harness.faults.loss import may_lose
from tests.harness.faults.report import Report
from tests.harness.faults.server.order import Order
from tests.harness.faults.server.restarts import kill_server
from tests.harness.faults.server.siege import DRAIN_PATIENCE
from tests.harness.servers.redis import RedisServer
from tests.harness.servers.settings import Persistence

NOTES: dict[Persistence, str] = {"everysec": may_lose(2.0)}
"""What a kill may cost; without a note, nothing."""


def kill_always(order: Order) -> Report:
    """SIGKILL with `appendfsync always`: nothing that was answered is lost."""
    return _kill(order, "always")


def kill_everysec(order: Order) -> Report:
    """SIGKILL with `appendfsync everysec`: at most the last two seconds, and it is measured."""
    return _kill(order, "everysec")


def kill_none(order: Order) -> Report:
    """SIGKILL with `appendonly no`: the control, which must lose."""
    return _kill(order, "none")


def _kill(order: Order, persistence: Persistence) -> Report:
    with RedisServer(persistence=persistence) as server:
        return kill_server(
            order,
            server,
            f"a server with {persistence}",
            note=NOTES.get(persistence, ""),
            # The control also loses the settings of its queue: its leases and backoffs are long.
            patience=3.0 if persistence == "none" else DRAIN_PATIENCE,
        )
