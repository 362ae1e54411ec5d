"""The server is killed and started again, under producers and workers at full work."""

from __future__ import annotations

from typing import Protocol

from tests.harness.faults.loss import check_but_loss
from tests.harness.faults.report import Report
from tests.harness.faults.server.flow import add_recovery
from tests.harness.faults.server.order import Order
from tests.harness.faults.server.scene import ServerScene
from tests.harness.faults.server.siege import DRAIN_PATIENCE, Siege

KILL = "kill server"


class Mortal(Protocol):
    """A server that can die and come back, with what it kept."""

    @property
    def url(self) -> str: ...

    def kill(self) -> None: ...

    def restart(self) -> None: ...


def kill_server(
    order: Order, server: Mortal, title: str, *, note: str = "", patience: float = DRAIN_PATIENCE
) -> Report:
    """Kill it `order.count` times; the note says what that may cost."""
    with ServerScene(server.url, order.folder, seed=order.seed, lease=order.lease) as scene:

        def blow() -> None:
            with scene.strike(KILL, note):
                server.kill()
                server.restart()

        Siege(scene, order).run(blow, patience=patience)
        evidence = scene.evidence()
    report = check_but_loss(evidence, seed=order.seed, title=f"{order.count} kills of {title}")
    return add_recovery(report, evidence, KILL)
