"""One long drain, lap by lap: does it slow down as dead rows pile up?"""

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

from field import environments
from field.entries import POSTGRES_FIELD
from field.on_postgres import OnPostgres
from field.program import call
from field.report import disturbance, table

JOBS = 500_000

NAPS = {True: 60, False: 5}
"""Seconds between two rounds of autovacuum, by `held`: the default, or many within the run."""

TABLES = ("ready", "lease", "rest", "job")


def run(jobs: int, *, held: bool) -> dict[str, Any]:
    """Enqueue and drain the jobs, with or without a snapshot held open all the while."""
    load, _, _ = os.getloadavg()
    with OnPostgres(autovacuum_naptime=f"{NAPS[held]}s") as ground:
        ground.empty()
        with holding_snapshot(ground) if held else contextlib.nullcontext():
            enqueued = measured(ground, "bulk", jobs)
            with Watch(ground) as watch:
                moments = list(measured(ground, "laps", jobs).values())
            tables = list(ask_tables(ground))
        return {
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "load_before": load,
            "server": ground.name,
            "durability": ground.durability,
            "jobs": jobs,
            "held": held,
            "bulk_per_second": enqueued["per_second"],
            "laps": list(laps(moments, watch, jobs)),
            "tables": tables,
        }


class Watch:
    """Notes the server's processor time all the while, to be asked about a moment later."""

    def __init__(self, ground: OnPostgres) -> None:
        self._ground = ground
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


def laps(moments: list[float], watch: Watch, jobs: int) -> Iterator[dict[str, float]]:
    share = jobs / (len(moments) - 1)
    for before, after in itertools.pairwise(moments):
        used = watch.used(after) - watch.used(before)
        yield {"per_second": share / (after - before), "server_us": used / share * 1e6}


@contextlib.contextmanager
def holding_snapshot(ground: OnPostgres) -> Iterator[None]:
    """Another session that keeps every row alive, as a report or a dump would."""
    with ground.connect() as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        # The first statement takes the snapshot.
        other.execute("SELECT count(*) FROM pg_class")
        yield
        other.execute("ROLLBACK")


def measured(ground: OnPostgres, measure: str, jobs: int) -> dict[str, float]:
    options = ["--url", ground.url, "--jobs", str(jobs)]
    return call([*environments.command(POSTGRES_FIELD["ackline"]), measure, *options])


def ask_tables(ground: OnPostgres) -> Iterator[dict[str, Any]]:
    with ground.connect() as connection:
        for name in TABLES:
            [(dead, removed, runs, size)] = connection.execute(
                "SELECT n_dead_tup, n_tup_upd + n_tup_del - n_dead_tup, autovacuum_count, "
                "pg_total_relation_size(relid) FROM pg_stat_user_tables "
                "WHERE schemaname = 'ackline' AND relname = %s",
                [name],
            )
            yield {"table": name, "dead": dead, "removed": removed, "vacuums": runs, "bytes": size}


def text(measured: dict[str, Any]) -> str:
    laps, jobs = measured["laps"], measured["jobs"]
    snapshot = "a snapshot held open all the while" if measured["held"] else "no snapshot held"
    heading = (
        f"{measured['server']}, {measured['durability']}. {measured['machine']}. {jobs:,} jobs, "
        f"one worker process, {snapshot}; autovacuum looks every {NAPS[measured['held']]} s."
        f"{disturbance(measured)}"
    )
    share = jobs // len(laps)
    rows = [
        [f"up to {at * share:,}", f"{lap['per_second']:,.0f}", f"{lap['server_us']:.1f}"]
        for at, lap in enumerate(laps, 1)
    ]
    tables = [
        [row["table"], *(f"{row[key]:,}" for key in ("dead", "removed", "vacuums", "bytes"))]
        for row in measured["tables"]
    ]
    first, last = laps[0], laps[-1]
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
