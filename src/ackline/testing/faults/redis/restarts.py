"""The server is killed and started again, with a log that keeps everything, most, or nothing."""

from __future__ import annotations

from ackline.testing.faults.loss import check_but_loss, may_lose
from ackline.testing.faults.redis.flow import add_recovery
from ackline.testing.faults.redis.order import Order
from ackline.testing.faults.redis.scene import ServerScene
from ackline.testing.faults.redis.siege import DRAIN_PATIENCE, Siege
from ackline.testing.faults.report import Report
from ackline.testing.servers.redis import RedisServer
from ackline.testing.servers.settings import Persistence

KILL = "kill server"

NOTES: dict[Persistence, str] = {"everysec": may_lose(2.0)}
"""What may be lost: where nothing is said, nothing."""


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
    with (
        RedisServer(persistence=persistence) as server,
        ServerScene(server.url, order.folder, seed=order.seed, lease=order.lease) as scene,
    ):

        def blow() -> None:
            with scene.strike(KILL, NOTES.get(persistence, "")):
                server.kill()
                server.restart()

        siege = Siege(scene, order)
        # Without its settings, the queue of the control has long leases and rests.
        siege.run(blow, patience=3.0 if persistence == "none" else DRAIN_PATIENCE)
        evidence = scene.evidence()
    title = f"{order.count} kills of a server with {persistence}"
    report = check_but_loss(evidence, seed=order.seed, title=title)
    return add_recovery(report, evidence, KILL)
