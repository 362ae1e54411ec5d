"""Kill and suspend relays between two stores; every job must run once.

`python -m tests.harness.faults.relay_campaign --from URL --to URL` prints the result.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

import ackline
from ackline.core.job import LIVE
from ackline.queue import NewJob, Queue
from tests.harness.faults.checks.evidence import PAUSE
from tests.harness.faults.checks.history import Phase, StepType, read_all
from tests.harness.faults.checks.report import Report
from tests.harness.faults.processes import ManagedProcess, wait_for
from tests.harness.faults.programs.options import QUEUE, policy
from tests.harness.faults.programs.relay import LEASE
from tests.harness.faults.scenario import Scenario
from tests.harness.faults.workload import SYNC, Task

RELAYS = 2
BULK, PAUSE_SECONDS = 20, 0.01
"""Jobs that are enqueued at once, and the seconds in between."""

LONG_LEASE = 60.0
"""Seconds; workers are not killed, so no lease may expire."""


class RelayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The stores, and how many faults to inject."""

    source: str
    target: str
    faults: int = 6
    seed: int = 1
    variant: str = ""
    keep: float = 0.0
    """Seconds that completed jobs are kept in the target; at 0, their ids can be reused at once."""


class RelayReport(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs were lost or run twice."""

    enqueued: int
    faults: Counter[str]
    lost: tuple[str, ...]
    """Enqueued, and never run."""
    twice: tuple[str, ...]
    """Run more than once."""
    unexpected: tuple[str, ...]
    report: Report | None = None
    """The checker's report on the target, if it kept completed jobs."""

    @property
    def ok(self) -> bool:
        checked = self.report is None or self.report.ok
        return checked and not (self.lost or self.twice or self.unexpected)

    def __str__(self) -> str:
        injected = ", ".join(f"{count} times {name}" for name, count in sorted(self.faults.items()))
        return (
            f"{self.enqueued:,} jobs, {injected}: {len(self.lost)} lost, {len(self.twice)} run "
            f"twice, {len(self.unexpected)} unexpected"
        )


class RelayCampaign:
    """Enqueues in one store, works in the other, and injects faults into the relays."""

    def __init__(self, plan: RelayPlan, folder: Path) -> None:
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._scenario = Scenario(plan.target, folder, seed=plan.seed, lease=LONG_LEASE)
        self._enqueued: list[str] = []
        self._stop_producing = threading.Event()

    def run(self) -> RelayReport:
        """Inject the faults, wait until all jobs have run, and count."""
        with ackline.open(self._plan.source) as opened, self._scenario as scenario:
            source = opened[QUEUE]
            target = msgspec.structs.replace(policy(LONG_LEASE), result_ttl=self._plan.keep)
            scenario.queue.configure(policy=target)
            producer = threading.Thread(target=self._produce, args=[source])
            producer.start()
            try:
                scenario.start("worker", concurrency=16)
                for _ in range(self._plan.faults):
                    self._inject_fault()
            finally:
                self._stop_producing.set()
                producer.join()
            self._replace_relays()
            wait_for("all to arrive", lambda: not _live(source) and not scenario.live(), 90.0)
            return msgspec.structs.replace(self._count(), report=self._check())

    def _produce(self, source: Queue[Any, Any]) -> None:
        task = msgspec.to_builtins(Task())
        for number in itertools.count():
            ids = [f"job-{number}-{index}" for index in range(BULK)]
            source.enqueue_many([NewJob(task, id=id, kind=SYNC) for id in ids])
            self._enqueued += ids
            if self._stop_producing.wait(PAUSE_SECONDS):
                return

    def _inject_fault(self) -> None:
        self._replace_relays()
        since = time.time()
        wait_for("a relay to move jobs", lambda: self._active_relay(since) is not None)
        time.sleep(self._random.uniform(0.0, 0.1))
        victim = self._active_relay(since)
        assert victim is not None
        if self._random.random() < 0.7:
            with self._scenario.fault("kill relay", victim.name):
                victim.kill()
        else:
            self._pause(victim)

    def _active_relay(self, since: float) -> ManagedProcess | None:
        """The relay that was the last to move jobs; the others are on standby."""
        last: dict[float, ManagedProcess] = {
            step.at: process
            for process in self._scenario.processes.running("relay")
            for step in process.steps()
            if step.type is StepType.ENQUEUE and step.at > since
        }
        return last[max(last)] if last else None

    def _pause(self, victim: ManagedProcess) -> None:
        """Suspend a relay past its lease; another takes over meanwhile."""
        end = self._scenario.begin_fault(f"{PAUSE} relay", victim.name)
        victim.send(signal.SIGSTOP)
        self._replace_relays()
        time.sleep(LEASE * 1.5)
        self._scenario.resume(victim, end)

    def _replace_relays(self) -> None:
        for _ in range(RELAYS - len(self._scenario.processes.running("relay"))):
            details = {"source": self._plan.source, "variant": self._plan.variant}
            self._scenario.start("relay", **details).wait_until_ready()

    def _check(self) -> Report | None:
        if not self._plan.keep:
            # The checker needs all jobs at the end.
            return None
        self._scenario.drain()
        return self._scenario.check("relayed")

    def _count(self) -> RelayReport:
        steps = read_all(self._scenario.folder)
        runs = Counter(
            step.id for step in steps if step.type is StepType.DELIVERY and step.phase is Phase.OK
        )
        enqueued = set(self._enqueued)
        return RelayReport(
            enqueued=len(enqueued),
            faults=Counter(
                step.act
                for step in steps
                if step.type is StepType.FAULT and step.phase is Phase.INVOKE
            ),
            lost=tuple(sorted(enqueued - runs.keys())),
            twice=tuple(sorted(id for id, count in runs.items() if count > 1)),
            unexpected=tuple(sorted(runs.keys() - enqueued)),
        )


def _live(queue: Queue[Any, Any]) -> int:
    return sum(count for state, count in queue.counts().items() if state in LIVE)


def main() -> None:
    """Run one campaign."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.faults.relay_campaign", description=__doc__
    )
    parser.add_argument("--from", dest="source", required=True)
    parser.add_argument("--to", dest="target", required=True)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    plan = RelayPlan(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory(prefix="ackline-relaying-") as temporary:
        relayed = RelayCampaign(plan, Path(temporary)).run()
    sys.stdout.write(f"{relayed}\n")
    raise SystemExit(0 if relayed.ok else 1)


if __name__ == "__main__":
    main()
