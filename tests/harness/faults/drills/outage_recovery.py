"""How soon workers process jobs again after a crash of the server, and at full speed."""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import msgspec

from ackline.core.errors import StoreError
from ackline.core.events import Act
from ackline.queue import NewJob
from tests.harness.faults.checks.evidence import Evidence
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.recovery_time import fault_times, recovery_times
from tests.harness.faults.drills.server_restarts import KillableServer
from tests.harness.faults.drills.server_scenario import ServerScenario, retry_while_unavailable
from tests.harness.faults.drills.workload_run import WorkloadRun
from tests.harness.faults.processes import wait_for
from tests.harness.faults.workload import SYNC, Task

OUTAGE = "server down"

OUTAGES = (0.0, 1.0, 5.0)
"""Seconds for which the server is down, besides its start time."""

FULL, WINDOW = 0.8, 0.5
"""The fraction of the previous speed that counts as full, and the seconds of a measurement."""

BEFORE, AFTER = 2.0, 5.0
"""Seconds of work before each crash, and after it."""

BACKLOG, BULK = 4000, 1000
"""The minimum of jobs in the queue, and how many are enqueued at once."""

MakeServer = Callable[[], AbstractContextManager[KillableServer]]
Measure = Callable[[KillableServer, DrillOptions], "Recovery"]


class Recovery(msgspec.Struct, frozen=True):
    """Seconds from the end of an outage until a condition held again, one for each sample."""

    name: str
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        median, longest = statistics.median(self.seconds), max(self.seconds)
        return f"| {self.name} | {median:.3f} s | {longest:.3f} s | {len(self.seconds)} |"


def next_job(server: KillableServer, options: DrillOptions, outage: float = 0.0) -> Recovery:
    """Take the server down for `outage` seconds, repeatedly, and wait for the next job."""
    with ServerScenario(
        server.url, options.folder, seed=options.seed, lease=options.lease
    ) as scenario:

        def inject_fault() -> None:
            _crash(scenario, server, outage)
            _wait_for_a_claim(scenario)

        WorkloadRun(scenario, options).run(inject_fault)
        found = recovery_times(scenario.evidence(), OUTAGE)
    name = f"killed, back after {outage:g} s" if outage else "killed and restarted"
    return Recovery(f"server {name}: the next job", tuple(found))


def full_speed(server: KillableServer, options: DrillOptions) -> Recovery:
    """Crash the server of workers that always have a backlog."""
    with ServerScenario(server.url, options.folder, seed=options.seed, lease=30.0) as scenario:
        workers = [scenario.start("worker", concurrency=16) for _ in range(2)]
        for _ in range(options.count):
            _keep_busy(scenario, BEFORE)
            _crash(scenario, server, 0.0)
            _keep_busy(scenario, AFTER)
        for worker in workers:
            worker.stop()
        found = _full_speeds(scenario.evidence())
    return Recovery(f"server killed and restarted: {FULL:.0%} of the speed before", tuple(found))


def _crash(scenario: ServerScenario, server: KillableServer, outage: float) -> None:
    with scenario.server_fault(OUTAGE):
        server.kill()
        time.sleep(outage)
        server.restart()


def _keep_busy(scenario: ServerScenario, seconds: float) -> None:
    until = time.monotonic() + seconds
    jobs = [NewJob(msgspec.to_builtins(Task()), kind=SYNC) for _ in range(BULK)]
    while time.monotonic() < until:
        if scenario.live() < BACKLOG:
            with contextlib.suppress(StoreError):
                scenario.queue.enqueue_many(jobs)
        else:
            time.sleep(0.02)


def _full_speeds(evidence: Evidence) -> list[float]:
    done = sorted(event.at for event in evidence.events if event.act is Act.COMPLETE)

    def speed(since: float, until: float) -> float:
        return (bisect_left(done, until) - bisect_left(done, since)) / (until - since)

    found = []
    for begin, end, _ in fault_times(evidence, OUTAGE):
        required = FULL * speed(begin - BEFORE / 2, begin)
        starts = (end + 0.05 * step for step in range(round(AFTER / 0.05)))
        reached = (at - end for at in starts if speed(at, at + WINDOW) >= required > 0)
        found.append(next(reached, float("inf")))
    return found


def _wait_for_a_claim(scenario: ServerScenario) -> None:
    store, key = scenario.queue.store, scenario.queue.key
    cursor = retry_while_unavailable(lambda: store.info().cursor)

    def claimed() -> bool:
        nonlocal cursor
        events = retry_while_unavailable(lambda: store.events(key, cursor, 1000))
        cursor = events[-1].cursor if events else cursor
        return any(event.act is Act.CLAIM for event in events)

    wait_for("a claim", claimed)


def table(measured: Sequence[Recovery]) -> str:
    """The measurements in Markdown."""
    head = "| outage | median | max | n |\n|---|---|---|---|"
    return "\n".join([head, *map(str, measured)])


def print_table(program: str, make_server: MakeServer) -> None:
    """Measure every outage and print the table."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("--samples", type=int, default=5)
    samples = parser.parse_args().samples
    measures: list[Measure] = [partial(next_job, outage=outage) for outage in OUTAGES]
    measured = [_measure(make_server, samples, each) for each in [*measures, full_speed]]
    sys.stdout.write(f"{table(measured)}\n")


def _measure(make_server: MakeServer, samples: int, measure: Measure) -> Recovery:
    with (
        tempfile.TemporaryDirectory(prefix="ackline-recovery-") as temporary,
        make_server() as server,
    ):
        return measure(server, DrillOptions(count=samples, folder=Path(temporary)))
