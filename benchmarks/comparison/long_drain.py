"""One long drain, tenth by tenth: does it slow down as dead rows pile up?"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
import platform
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

from comparison import environments
from comparison.postgres_server import PostgresBenchmarkServer
from comparison.program import call
from comparison.queues import POSTGRES_QUEUES
from comparison.report import disturbance, table

JOBS = 500_000

IDLE_SECONDS = {True: 60, False: 5}
"""Seconds between two rounds of autovacuum: the default with an open snapshot, else many."""

TABLES = ("ready", "lease", "inactive", "job")


def run(jobs: int, *, snapshot: bool) -> dict[str, Any]:
    """Enqueue and drain the jobs, with or without a snapshot held open meanwhile."""
    load, _, _ = os.getloadavg()
    with PostgresBenchmarkServer(autovacuum_naptime=f"{IDLE_SECONDS[snapshot]}s") as server:
        server.empty()
        with holding_snapshot(server) if snapshot else contextlib.nullcontext():
            enqueued = measured(server, "bulk", jobs)
            with ProcessorUsage(server) as usage:
                moments = list(measured(server, "long_drain", jobs).values())
            tables = list(read_tables(server))
        return {
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "load_before": load,
            "server": server.name,
            "durability": server.durability,
            "jobs": jobs,
            "held": snapshot,
            "bulk_per_second": enqueued["per_second"],
            "tenths": list(tenths(moments, usage, jobs)),
            "tables": tables,
        }


class ProcessorUsage:
    """Samples the server's processor time, for any moment of a run."""

    def __init__(self, server: PostgresBenchmarkServer) -> None:
        self._ground = server
        self._moments: list[float] = []
        self._used: list[float] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.05):
            self._used.append(self._ground.processor_time())
            self._moments.append(time.perf_counter())

    def used(self, moment: float) -> float:
        """Seconds of processor time, up to a moment."""
        return self._used[min(bisect.bisect(self._moments, moment), len(self._used) - 1)]


def tenths(moments: list[float], usage: ProcessorUsage, jobs: int) -> Iterator[dict[str, float]]:
    share = jobs / (len(moments) - 1)
    for before, after in itertools.pairwise(moments):
        used = usage.used(after) - usage.used(before)
        yield {"per_second": share / (after - before), "server_us": used / share * 1e6}


@contextlib.contextmanager
def holding_snapshot(server: PostgresBenchmarkServer) -> Iterator[None]:
    """Another session that keeps dead rows visible, as a report or a dump would."""
    with server.connect() as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        # The first statement takes the snapshot.
        other.execute("SELECT count(*) FROM pg_class")
        yield
        other.execute("ROLLBACK")


def measured(server: PostgresBenchmarkServer, measure: str, jobs: int) -> dict[str, float]:
    options = ["--url", server.url, "--jobs", str(jobs)]
    return call([*environments.command(POSTGRES_QUEUES["ackline"]), measure, *options])


def read_tables(server: PostgresBenchmarkServer) -> Iterator[dict[str, Any]]:
    with server.connect() as connection:
        for name in TABLES:
            [(dead, removed, runs, size)] = connection.execute(
                "SELECT n_dead_tup, n_tup_upd + n_tup_del - n_dead_tup, autovacuum_count, "
                "pg_total_relation_size(relid) FROM pg_stat_user_tables "
                "WHERE schemaname = 'ackline' AND relname = %s",
                [name],
            )
            yield {"table": name, "dead": dead, "removed": removed, "vacuums": runs, "bytes": size}


def text(measured: dict[str, Any]) -> str:
    tenths, jobs = measured["tenths"], measured["jobs"]
    snapshot = "a snapshot held open meanwhile" if measured["held"] else "no snapshot held"
    heading = (
        f"{measured['server']}, {measured['durability']}. {measured['machine']}. {jobs:,} jobs, "
        f"one worker process, {snapshot}; autovacuum runs every {IDLE_SECONDS[measured['held']]} s."
        f"{disturbance(measured)}"
    )
    share = jobs // len(tenths)
    rows = [
        [f"up to {at * share:,}", f"{tenth['per_second']:,.0f}", f"{tenth['server_us']:.1f}"]
        for at, tenth in enumerate(tenths, 1)
    ]
    tables = [
        [row["table"], *(f"{row[key]:,}" for key in ("dead", "removed", "vacuums", "bytes"))]
        for row in measured["tables"]
    ]
    first, last = tenths[0], tenths[-1]
    speed, effort = last["per_second"] / first["per_second"], last["server_us"] / first["server_us"]
    return "\n\n".join(
        [
            heading,
            table(["jobs", "drained/s", "server µs, each"], rows, right=2),
            f"The last tenth is drained at {speed:.0%} of the first one's speed, "
            f"with {effort:.0%} of its processor time on the server.",
            table(["table", "dead rows", "removed", "autovacuums", "bytes"], tables, right=4),
        ]
    )
