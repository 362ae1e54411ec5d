"""How soon jobs flow again after a fault of the server, with nobody's help.

`python -m ackline.testing.faults.redis.recovery` prints a table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ackline.events import Act
from ackline.testing.faults.crew import wait_for
from ackline.testing.faults.redis.flow import recoveries
from ackline.testing.faults.redis.order import Order
from ackline.testing.faults.redis.scene import ServerScene, patiently
from ackline.testing.faults.redis.siege import Siege
from ackline.testing.servers.redis import RedisServer

OUTAGE = "server down"

OUTAGES = (0.0, 1.0, 5.0)
"""Seconds for which the server is gone, besides the time that it takes to start."""


class Recovery(msgspec.Struct, frozen=True):
    """Seconds from the end of an outage to the next claim, one for each sample."""

    outage: float
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        median, most = statistics.median(self.seconds), max(self.seconds)
        name = f"server killed, back after {self.outage:g} s" if self.outage else "server restarted"
        return f"| {name} | {median:.3f} s | {most:.3f} s | {len(self.seconds)} |"


def measure(outage: float, order: Order) -> Recovery:
    """Let the server be away for so long, again and again, and wait each time for the next job."""
    with (
        RedisServer(persistence="always") as server,
        ServerScene(server.url, order.folder, seed=order.seed, lease=order.lease) as scene,
    ):

        def blow() -> None:
            with scene.strike(OUTAGE):
                server.kill()
                time.sleep(outage)
                server.restart()
            _wait_for_a_claim(scene)

        Siege(scene, order).run(blow)
        return Recovery(outage, tuple(recoveries(scene.evidence(), OUTAGE)))


def _wait_for_a_claim(scene: ServerScene) -> None:
    store, key = scene.queue.store, scene.queue.key
    cursor = patiently(lambda: store.info().cursor)

    def claimed() -> bool:
        nonlocal cursor
        events = patiently(lambda: store.events(key, cursor, 1000))
        cursor = events[-1].cursor if events else cursor
        return any(event.act is Act.CLAIM for event in events)

    wait_for("a claim", claimed)


def table(measured: Sequence[Recovery]) -> str:
    """All of them, in Markdown."""
    head = "| outage | median | max | n |\n|---|---|---|---|"
    return "\n".join([head, *map(str, measured)])


def main() -> None:
    """Measure every outage and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m ackline.testing.faults.redis.recovery", description=__doc__
    )
    parser.add_argument("--samples", type=int, default=5)
    options = parser.parse_args()
    measured = []
    for outage in OUTAGES:
        with tempfile.TemporaryDirectory(prefix="ackline-recovery-") as place:
            measured.append(measure(outage, Order(count=options.samples, folder=Path(place))))
    sys.stdout.write(f"{table(measured)}\n")


if __name__ == "__main__":
    main()
