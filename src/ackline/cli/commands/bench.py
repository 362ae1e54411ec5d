"""`ackline bench`: measure a store on this machine, through the library."""

from __future__ import annotations

import os
import platform
import tempfile

import click
import msgspec
from rich.table import Table
from rich.text import Text

from ackline.bench import MEASURES, BenchmarkPlan, Measurement, measure
from ackline.cli.app import command
from ackline.cli.output.tables import new_table
from ackline.cli.output.versions import ackline_version, python_version
from ackline.cli.session import Session
from ackline.queues import Queues, open


@command("bench", creates_store=True)
@click.option(
    "--jobs",
    type=click.IntRange(min=100),
    default=20000,
    metavar="N",
    help="Jobs to enqueue and drain.",
)
@click.option(
    "--singles",
    type=click.IntRange(min=10),
    default=1000,
    metavar="N",
    help="Single enqueue calls.",
)
@click.option(
    "--round-trips", type=click.IntRange(min=10), default=300, metavar="N", help="Latency samples."
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=64,
    metavar="N",
    help="The worker's concurrency.",
)
@click.option(
    "--growth",
    default="10000,100000",
    metavar="N,N",
    help="Numbers of queued jobs at which to compare the cost of one job.",
)
@click.option(
    "--queues",
    type=click.IntRange(min=1),
    default=100,
    metavar="N",
    help="Number of queues to spread jobs over.",
)
@click.option(
    "--scheduled",
    type=click.IntRange(min=1),
    default=100000,
    metavar="N",
    help="Number of scheduled jobs in the queue meanwhile.",
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(tuple(MEASURES)),
    metavar="MEASURE",
    help=f"Only this measure: {', '.join(MEASURES)}. Can be repeated.",
)
def bench(
    session: Session,
    jobs: int,
    singles: int,
    round_trips: int,
    concurrency: int,
    growth: str,
    queues: int,
    scheduled: int,
    only: tuple[str, ...],
) -> None:
    """Measure how fast a store enqueues and drains jobs, and its latencies.

    Without --store, it measures a new SQLite file in a temporary directory. With --store, it
    leaves queues named "bench …" in that store.
    """
    plan = BenchmarkPlan(
        jobs=jobs,
        singles=singles,
        round_trips=round_trips,
        concurrency=concurrency,
        growth=_numbers(growth),
        queues=queues,
        scheduled=scheduled,
        measures=only or MEASURES,
    )
    if session.common.store is not None:
        _run(session, session.queues, plan)
        return
    with (
        tempfile.TemporaryDirectory(prefix="ackline-bench-", dir=".") as folder,
        open(f"sqlite:///{os.path.abspath(folder)}/bench.db") as opened,
    ):
        _run(session, opened, plan)


def _run(session: Session, queues: Queues, plan: BenchmarkPlan) -> None:
    info = queues.info()
    about = {
        "store": info.name,
        "durability": info.durability,
        "ackline": ackline_version(),
        "python": python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    measurements = []
    for measurement in measure(queues, plan):
        measurements.append(measurement)
        if not session.json:
            session.notice(f"measured: {measurement.name}")
    if session.json:
        session.print_json({**about, "plan": plan, "measurements": measurements})
        return
    session.print(_table(measurements))
    session.print("\n".join(f"{name:>10}  {value}" for name, value in about.items()), "dim")


def _table(measurements: list[Measurement]) -> Table:
    table = new_table(
        "measure",
        "note",
        "jobs",
        "jobs/s",
        "p50 ms",
        "p99 ms",
        right=4,
        shrinkable=[("note", 8), ("measure", 8)],
    )
    for measurement in measurements:
        table.add_row(
            measurement.name,
            Text(measurement.note, "dim"),
            f"{measurement.jobs:,}",
            _number(measurement.per_second, ",.0f"),
            _number(measurement.p50_ms, ".2f"),
            _number(measurement.p99_ms, ".2f"),
        )
    return table


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return msgspec.convert([int(part) for part in text.split(",")], tuple[int, ...])
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers like 10000,1000000") from None
