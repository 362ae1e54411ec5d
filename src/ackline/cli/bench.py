"""`ackline bench`: how fast is this store, on this machine, through the library."""

from __future__ import annotations

import os
import platform
import tempfile
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from ackline.bench import MEASURES, Figure, Plan, measure
from ackline.cli.app import command
from ackline.cli.session import Session
from ackline.cli.tables import new_table
from ackline.cli.versions import ackline_version, python_version
from ackline.queues import Queues, open

TRY = "Try"


@command("bench", panel=TRY, creates=True)
def bench(
    session: Session,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=100, help="Jobs to enqueue and to drain.")
    ] = 20_000,
    singles: Annotated[
        int, typer.Option(metavar="N", min=10, help="Single enqueue calls.")
    ] = 1_000,
    round_trips: Annotated[int, typer.Option(metavar="N", min=10, help="Latency samples.")] = 300,
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=1, help="The worker's concurrency.")
    ] = 64,
    growth: Annotated[
        str, typer.Option(help="Numbers of waiting jobs to compare the cost of one job at.")
    ] = "10000,100000",
    queues: Annotated[
        int, typer.Option(metavar="N", min=1, help="Queues to spread jobs over.")
    ] = 100,
    scheduled: Annotated[
        int, typer.Option(metavar="N", min=1, help="Jobs that wait for their time meanwhile.")
    ] = 100_000,
    only: Annotated[
        list[str] | None, typer.Option(help=f"Measure only this: {', '.join(MEASURES)}.")
    ] = None,
) -> None:
    """Measure enqueue, drain, latency and growth.

    Without --store it measures a new SQLite file in a temporary directory here. With one, it
    leaves queues named "bench …" behind in it.
    """
    plan = Plan(
        jobs=jobs,
        singles=singles,
        round_trips=round_trips,
        concurrency=concurrency,
        growth=_numbers(growth),
        queues=queues,
        scheduled=scheduled,
        measures=_chosen(only),
    )
    if session.common.store is not None:
        _run(session, session.queues, plan)
        return
    with (
        tempfile.TemporaryDirectory(prefix="ackline-bench-", dir=".") as folder,
        open(f"sqlite:///{os.path.abspath(folder)}/bench.db") as opened,
    ):
        _run(session, opened, plan)


def _run(session: Session, queues: Queues, plan: Plan) -> None:
    info = queues.info()
    about = {
        "store": info.name,
        "durability": info.durability,
        "ackline": ackline_version(),
        "python": python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    figures = []
    for figure in measure(queues, plan):
        figures.append(figure)
        if not session.json:
            session.notice(f"measured: {figure.name}")
    if session.json:
        session.document({**about, "plan": plan, "figures": figures})
        return
    session.say(_table(figures))
    session.say("\n".join(f"{name:>10}  {value}" for name, value in about.items()), "dim")


def _table(figures: list[Figure]) -> Table:
    table = new_table(
        "measure",
        "note",
        "jobs",
        "jobs/s",
        "p50 ms",
        "p99 ms",
        right=4,
        spare=[("note", 8), ("measure", 8)],
    )
    for figure in figures:
        table.add_row(
            figure.name,
            Text(figure.note, "dim"),
            f"{figure.jobs:,}",
            _number(figure.per_second, ",.0f"),
            _number(figure.p50_ms, ".2f"),
            _number(figure.p99_ms, ".2f"),
        )
    return table


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return msgspec.convert([int(part) for part in text.split(",")], tuple[int, ...])
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of numbers like 10000,1000000") from None


def _chosen(only: list[str] | None) -> tuple[Any, ...]:
    for name in only or ():
        if name not in MEASURES:
            raise typer.BadParameter(
                f"{name!r} is not a measure; choose from: {', '.join(MEASURES)}"
            )
    return tuple(only or MEASURES)
