"""The server runs out of memory: it accepts no more jobs, and everything else continues."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from ackline.core.errors import StoreError, StoreFull
from ackline.core.job import TERMINAL, State
from ackline.queue import Job
from tests.harness.faults.checks.checker import BLOCKED, check
from tests.harness.faults.checks.evidence import Evidence
from tests.harness.faults.checks.history import Phase, Step, StepType
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.workload import SYNC
from tests.harness.servers.redis import RedisServer

MAXMEMORY = 6 << 20
"""Bytes of memory that the server may use."""

LARGE_TEXT = "x" * 40_000
"""A large payload."""

TOO_MANY = 2_000
"""More jobs than fit."""


def fill_memory(options: DrillOptions) -> Report:
    """Fill it, settle, cancel, purge, fill it again; then process everything while it is full."""
    with (
        RedisServer(maxmemory=MAXMEMORY) as server,
        ServerScenario(server.url, options.folder, seed=options.seed, lease=30.0) as scenario,
    ):
        full_queue = FullServerQueue(scenario, server)
        for _ in range(options.count):
            with scenario.server_fault("fill memory"), full_queue.full():
                full_queue.run_other_operations()
                full_queue.purge()
            full_queue.expect_accepted()
        with full_queue.full():
            scenario.drain(timeout=10.0)
        evidence = _without(scenario.evidence(), full_queue.purged)
    title = f"{options.count} times no memory left"
    report = check(evidence, seed=options.seed, title=title)
    counted = {f"times: {act}": count for act, count in full_queue.done.items()}
    return msgspec.structs.replace(report, figures={**report.figures, **counted})


class FullServerQueue:
    """A queue on a server without free memory."""

    def __init__(self, scenario: ServerScenario, server: RedisServer) -> None:
        self.purged: set[str] = set()
        self.done: Counter[str] = Counter()
        self._scenario = scenario
        self._server = server
        self._queue = scenario.queue
        self._numbers = itertools.count()

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Keep it full, whatever memory connections use and free."""
        self._fill()
        with self._server.client() as client:
            client.config_set("maxmemory", 1)
            yield
            client.config_set("maxmemory", MAXMEMORY)

    def _fill(self) -> None:
        """Enqueue until the store raises StoreFull."""
        try:
            for _ in range(TOO_MANY):
                self._enqueue()
        except StoreFull:
            self.done["enqueue refused"] += 1
        except StoreError as error:
            self._scenario.report_violation(
                BLOCKED, "enqueue", f"refused, but not as StoreFull: {error!r}"
            )
        else:
            self._scenario.report_violation(
                BLOCKED, "enqueue", f"{TOO_MANY} jobs, and no StoreFull"
            )

    def run_other_operations(self) -> None:
        """Do everything except enqueue."""
        queue = self._queue
        with self._expect_success("claim"):
            jobs = queue.claim(6)
            with self._expect_success("extend"):
                queue.extend(jobs[0], 30.0)
            self._settle(jobs[0], lambda job: queue.complete(job, "done"))
            self._settle(jobs[1], lambda job: queue.complete(job, LARGE_TEXT))
            self._settle(jobs[2], lambda job: queue.fail(job, "on purpose"), Phase.FAIL)
            self._settle(jobs[3], lambda job: queue.snooze(job, 0.0), Phase.FAIL)
            self._settle(jobs[4], queue.release, Phase.FAIL)
            self._settle(jobs[5], queue.release, Phase.FAIL)
        with self._expect_success("cancel"):
            queue.cancel(self._ids(State.QUEUED)[0])

    def purge(self) -> None:
        """Free memory: purge the finished jobs and half of the queued ones."""
        ids = [*self._ids(*TERMINAL), *self._ids(State.QUEUED)[::2]]
        with self._expect_success("purge"):
            self._queue.purge(ids=ids)
            self.purged.update(ids)

    def expect_accepted(self) -> None:
        """Check that jobs are accepted again."""
        with self._expect_success("enqueue after a purge"):
            self._enqueue()

    def _enqueue(self) -> None:
        payload = {"seconds": [0.0], "padding": LARGE_TEXT}
        self._queue.enqueue(payload, id=f"large-{next(self._numbers)}", kind=SYNC)

    def _settle(
        self, job: Job[object], settle: Callable[[Job[object]], object], end: Phase = Phase.OK
    ) -> None:
        for phase in (Phase.INVOKE, end):
            step = Step(type=StepType.DELIVERY, phase=phase, id=job.id, token=job.record.token)
            self._scenario.history.write(step)
        with self._expect_success("settle"):
            settle(job)

    def _ids(self, *states: State) -> list[str]:
        return [job.id for job in self._queue.jobs(states=states, limit=1000).jobs]

    @contextlib.contextmanager
    def _expect_success(self, act: str) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            self._scenario.report_violation(BLOCKED, act, f"{type(error).__name__}: {error}")
        else:
            self.done[act] += 1


def _without(evidence: Evidence, ids: set[str]) -> Evidence:
    """The evidence without jobs that were purged on purpose."""
    return msgspec.structs.replace(
        evidence,
        steps=[step for step in evidence.steps if step.id not in ids],
        events=[event for event in evidence.events if event.id not in ids],
    )
