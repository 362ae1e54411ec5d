"""How long a job waits after its worker has died: `python -m tests.harness.faults.recovery_times`.

For each recovery path, on each store, with real processes and signals.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tests.harness.faults.checks.history import Phase, Step, StepType, read_all
from tests.harness.faults.processes import ManagedProcess, SupervisedWorker, children_of, wait_for
from tests.harness.faults.scenario import Scenario
from tests.harness.faults.workload import ASYNC, Task
from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.redis import RedisServer

SHORT, LONG = 0.7, 30.0
"""Leases, in seconds: one that expires soon, and one so long that another path is faster."""

SLOW_SWEEP = 5.0
"""Seconds between sweeps of a queue with an interval of its own."""

ALL_STORES = ("sqlite", "redis", "postgresql")

FOREVER = Task((600.0, 0.0))
"""A job whose first attempt does not end, and whose second ends at once."""

Victim = ManagedProcess | SupervisedWorker


class RecoveryPath(msgspec.Struct, frozen=True, kw_only=True):
    """One of the ways in which a job is recovered."""

    name: str
    detection: str
    lease: float = LONG
    end: Callable[[Victim], None]
    role: str = "worker"
    maintenance: bool = True
    variant: str = ""
    sweep_every: float | None = None
    stores: Sequence[str] = ALL_STORES
    """The stores on which it is possible."""
    bound: float
    """The longest acceptable time in seconds, on a slow and busy machine."""


class RecoveryTimes(msgspec.Struct, frozen=True):
    """Seconds from the end of a worker to the next start of its job, one for each sample."""

    path: RecoveryPath
    store: str
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        return f"{statistics.median(self.seconds):.3f} s, {max(self.seconds):.3f} s"


def _kill(victim: Victim) -> None:
    victim.kill()


def _terminate(victim: Victim) -> None:
    assert isinstance(victim, ManagedProcess)
    victim.send(signal.SIGTERM)


RECOVERY_PATHS = (
    RecoveryPath(
        name="release at graceful stop",
        detection="SIGTERM",
        end=_terminate,
        bound=10.0,
    ),
    RecoveryPath(
        name="process monitor: the supervisor sees its child die",
        detection="crash of a worker process",
        end=_kill,
        role="supervisor",
        bound=10.0,
    ),
    RecoveryPath(
        name="transaction rolled back: claim, work and ack were one",
        detection="crash of a worker process",
        end=_kill,
        role="transactional_worker",
        stores=("postgresql",),
        bound=10.0,
    ),
    RecoveryPath(
        name="worker heartbeat missed (10 s; lease 30 s)",
        detection="crash or hang of a host",
        end=_kill,
        bound=25.0,
    ),
    RecoveryPath(
        name=f"lease expiry by sweep (lease {SHORT:g} s, sweep 1 s)",
        detection="anything",
        lease=SHORT,
        end=_kill,
        variant="no repair",
        bound=15.0,
    ),
    RecoveryPath(
        name=f"the same, sweep_every={SLOW_SWEEP:g}",
        detection="anything",
        lease=SHORT,
        end=_kill,
        variant="no repair",
        sweep_every=SLOW_SWEEP,
        bound=20.0,
    ),
    RecoveryPath(
        name=f"lease expiry by claim-time repair, no maintenance (lease {SHORT:g} s)",
        detection="anything",
        lease=SHORT,
        end=_kill,
        maintenance=False,
        bound=15.0,
    ),
)


def measure(path: RecoveryPath, url: str, folder: Path, samples: int = 5) -> RecoveryTimes:
    """End `samples` workers, one after the other, each in the middle of a job."""
    with Scenario(url, folder, lease=path.lease) as scenario:
        scenario.queue.configure(sweep_every=path.sweep_every)
        for number in range(samples):
            scenario.enqueue(f"job-{number}", FOREVER, kind=ASYNC)
        victims = _victims(scenario, path, samples)
        details = {"maintenance": path.maintenance, "variant": path.variant}
        other_worker = scenario.start("worker", concurrency=samples, **details)
        wait_for("the other worker", lambda: other_worker.name in _workers(scenario))
        for victim in victims:
            with scenario.fault("end worker", victim.name):
                path.end(victim)
            time.sleep(0.05)
        wait_for("all jobs to be started again", lambda: _started(folder, 2) == samples, 60.0)
        name = scenario.queue.store.capabilities.name
        return RecoveryTimes(path, name, tuple(_delays(read_all(folder))))


def _victims(scenario: Scenario, path: RecoveryPath, samples: int) -> Sequence[Victim]:
    details = {"concurrency": 1, "grace": 0.0, "maintenance": False}
    victims: Sequence[Victim]
    if path.role == "supervisor":
        supervisor = scenario.start(path.role, processes=samples, **details)
    else:
        victims = [scenario.start(path.role, **details) for _ in range(samples)]
    wait_for("all jobs to be started", lambda: _started(scenario.folder, 1) == samples)
    if path.role == "supervisor":
        victims = list(children_of(supervisor))
    return victims


def _workers(scenario: Scenario) -> set[str]:
    return {worker.heartbeat.id for worker in scenario.queue.workers()}


def _started(folder: Path, times: int) -> int:
    """How many jobs were started at least `times` times."""
    starts = Counter(step.id for step in read_all(folder) if _is_start(step))
    return sum(count >= times for count in starts.values())


def _is_start(step: Step) -> bool:
    return step.type is StepType.DELIVERY and step.phase is Phase.INVOKE


def _delays(steps: Sequence[Step]) -> list[float]:
    ended = {
        step.worker: step.at
        for step in steps
        if step.type is StepType.FAULT and step.phase is Phase.INVOKE
    }
    starts: dict[str, list[Step]] = {}
    for step in filter(_is_start, steps):
        starts.setdefault(step.id, []).append(step)
    return [again.at - ended[first.worker] for first, again, *_ in starts.values()]


def table(measured: Sequence[RecoveryTimes]) -> str:
    """The measurements in Markdown: a line for each recovery path, a column for each store."""
    stores = [name for name in ALL_STORES if any(result.store == name for result in measured)]
    cells_by_path_and_store = {(result.path.name, result.store): str(result) for result in measured}
    lines = [["recovery path", "detects", *stores], ["---"] * (2 + len(stores))]
    for path in (
        path for path in RECOVERY_PATHS if any(result.path is path for result in measured)
    ):
        cells = [cells_by_path_and_store.get((path.name, store), "") for store in stores]
        lines.append([path.name, path.detection, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- stores ---


@contextlib.contextmanager
def sqlite(folder: Path) -> Iterator[Callable[[int], str]]:
    """A file for each recovery path."""
    yield lambda number: f"sqlite:///{folder}/jobs-{number}.db"


@contextlib.contextmanager
def redis(_folder: Path) -> Iterator[Callable[[int], str]]:
    """A server that loses nothing; a prefix for each recovery path."""
    with RedisServer(persistence="always") as server:
        yield lambda number: f"{server.url}?prefix=path{number}"


@contextlib.contextmanager
def postgresql(_folder: Path) -> Iterator[Callable[[int], str]]:
    """A server that loses nothing; a schema for each recovery path."""
    with PostgresServer(fsync=True) as server:
        yield lambda number: f"{server.url}?schema=path{number}"


SERVERS: Mapping[str, Callable[[Path], contextlib.AbstractContextManager[Callable[[int], str]]]] = {
    "sqlite": sqlite,
    "redis": redis,
    "postgresql": postgresql,
}


def measure_store(store: str, paths: Sequence[RecoveryPath], samples: int) -> list[RecoveryTimes]:
    """Measure every recovery path of a store, each on an empty store."""
    measured = []
    with (
        tempfile.TemporaryDirectory(prefix="ackline-recovery-") as folder,
        SERVERS[store](Path(folder)) as url_of,
    ):
        for number, path in enumerate(paths):
            if store in path.stores:
                histories = Path(folder) / f"histories-{number}"
                measured.append(measure(path, url_of(number), histories, samples))
    return measured


def main() -> None:
    """Measure every recovery path on every store, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.faults.recovery_times", description=__doc__
    )
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--store", choices=ALL_STORES, action="append", help="all, unless named")
    options = parser.parse_args()
    measured = [
        result
        for store in options.store or ALL_STORES
        for result in measure_store(store, RECOVERY_PATHS, options.samples)
    ]
    sys.stdout.write(f"{table(measured)}\n\nMedian and longest of {options.samples}.\n")


if __name__ == "__main__":
    main()
