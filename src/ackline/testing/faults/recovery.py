"""How long a job waits after its worker is gone: `python -m ackline.testing.faults.recovery`."""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ackline.testing.faults.crew import Child, Member, children_of, wait_for
from ackline.testing.faults.history import Phase, Step, What, read_all
from ackline.testing.faults.scene import Scene
from ackline.testing.faults.work import ASYNC, Task

SHORT, LONG = 0.7, 30.0
"""Leases, in seconds: one to wait for, one that is surely not what frees the job."""

FOREVER = Task((600.0, 0.0))
"""The first attempt does not end by itself, the second at once."""

Victim = Member | Child


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One of the ways in which a job comes back."""

    name: str
    detects: str
    lease: float = LONG
    end: Callable[[Victim], None]
    supervised: bool = False
    maintenance: bool = True
    variant: str = ""
    bound: float
    """Seconds that it may take, on a slow and busy machine."""


class Measured(msgspec.Struct, frozen=True):
    """Seconds from the end of a worker to the next start of its job, one for each sample."""

    way: Way
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        median, most = statistics.median(self.seconds), max(self.seconds)
        return (
            f"| {self.way.name} | {self.way.detects} | {median:.3f} s | {most:.3f} s "
            f"| {len(self.seconds)} |"
        )


def _kill(victim: Victim) -> None:
    victim.kill()


def _terminate(victim: Victim) -> None:
    assert isinstance(victim, Member)
    victim.send(signal.SIGTERM)


WAYS = (
    Way(
        name="release at graceful stop",
        detects="SIGTERM",
        end=_terminate,
        bound=10.0,
    ),
    Way(
        name="process monitor: the supervisor sees its child die",
        detects="crash of a worker process",
        end=_kill,
        supervised=True,
        bound=10.0,
    ),
    Way(
        name="worker heartbeat missed (10 s; lease 30 s)",
        detects="crash or hang of a host",
        end=_kill,
        bound=25.0,
    ),
    Way(
        name=f"lease expiry by sweep (lease {SHORT:g} s, sweep 1 s)",
        detects="anything",
        lease=SHORT,
        end=_kill,
        variant="no repair",
        bound=15.0,
    ),
    Way(
        name=f"lease expiry by claim-time repair, no maintenance (lease {SHORT:g} s)",
        detects="anything",
        lease=SHORT,
        end=_kill,
        maintenance=False,
        bound=15.0,
    ),
)


def measure(way: Way, url: str, folder: Path, samples: int = 5) -> Measured:
    """End so many workers, one after the other, each in the middle of a job."""
    with Scene(url, folder, lease=way.lease) as scene:
        for number in range(samples):
            scene.enqueue(f"job-{number}", FOREVER, kind=ASYNC)
        victims = _victims(scene, way, samples)
        details = {"maintenance": way.maintenance, "variant": way.variant}
        rescuer = scene.start("worker", concurrency=samples, **details)
        wait_for("the rescuer", lambda: rescuer.name in _workers(scene))
        for victim in victims:
            with scene.fault("end worker", victim.name):
                way.end(victim)
            time.sleep(0.05)
        wait_for("all jobs to be started again", lambda: _started(folder, 2) == samples, 60.0)
        return Measured(way, tuple(_delays(read_all(folder))))


def _victims(scene: Scene, way: Way, samples: int) -> Sequence[Victim]:
    details = {"concurrency": 1, "grace": 0.0, "maintenance": False}
    victims: Sequence[Victim]
    if way.supervised:
        supervisor = scene.start("supervisor", processes=samples, **details)
    else:
        victims = [scene.start("worker", **details) for _ in range(samples)]
    wait_for("all jobs to be started", lambda: _started(scene.folder, 1) == samples)
    if way.supervised:
        victims = list(children_of(supervisor))
    return victims


def _workers(scene: Scene) -> set[str]:
    return {worker.beat.id for worker in scene.queue.workers()}


def _started(folder: Path, times: int) -> int:
    """How many jobs were started so often."""
    starts = Counter(step.id for step in read_all(folder) if _is_start(step))
    return sum(count >= times for count in starts.values())


def _is_start(step: Step) -> bool:
    return step.what is What.DELIVERY and step.phase is Phase.INVOKE


def _delays(steps: Sequence[Step]) -> list[float]:
    ended = {
        step.worker: step.at
        for step in steps
        if step.what is What.FAULT and step.phase is Phase.INVOKE
    }
    starts: dict[str, list[Step]] = {}
    for step in filter(_is_start, steps):
        starts.setdefault(step.id, []).append(step)
    return [again.at - ended[first.worker] for first, again, *_ in starts.values()]


def table(measured: Sequence[Measured]) -> str:
    """All of them, in Markdown."""
    head = "| way | detects | median | max | n |\n|---|---|---|---|---|"
    return "\n".join([head, *map(str, measured)])


def main() -> None:
    """Measure every way and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m ackline.testing.faults.recovery", description=__doc__
    )
    parser.add_argument("--samples", type=int, default=5)
    options = parser.parse_args()
    measured = []
    for way in WAYS:
        with tempfile.TemporaryDirectory(prefix="ackline-recovery-") as place:
            url = f"sqlite:///{place}/jobs.db"
            measured.append(measure(way, url, Path(place) / "histories", options.samples))
    sys.stdout.write(f"{table(measured)}\n")


if __name__ == "__main__":
    main()
