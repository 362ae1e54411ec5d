"""`ackline pipeline report`: a report on a lake, in the terminal or as a page."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.pipeline import pipeline
from ackline.cli.pipeline.errors import ending
from ackline.cli.pipeline.gaps import in_words
from ackline.cli.pipeline.starting import (
    lake_option,
    master_option,
    require_extra,
    require_file_place,
    start_spark,
)
from ackline.cli.session import Session
from ackline.cli.tables import new_table
from ackline.cli.words import count, plain, shorten, span

if TYPE_CHECKING:
    from ackline.spark.reports.facts import Report, Rows

Cells = dict[str, Callable[[dict[str, Any]], str | Text]]
"""The columns of a table, each with what it shows of a row."""

NARROW = 120
"""In a terminal narrower than this, counts and times are two tables."""

BARS = " ▁▂▃▄▅▆▇█"
WIDEST = 72
LEAST_NAME = 12
"""Characters of a name that are shown at least in a narrow terminal."""


@command("report", group=pipeline)
@lake_option
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write it as one HTML page with plots.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only N days, of which the last is the last with events.",
)
@master_option
def report(
    session: Session, lake: str, html: Path | None, days: int | None, master: str | None
) -> None:
    """Show what a lake tells: traffic, waiting times, errors, workers, a forecast.

    The lake is as the last `ackline pipeline run` left it; no store is needed.
    """
    require_extra()
    from ackline.spark.lake.lake import Lake

    if html is not None:
        require_file_place(html)
    Lake(lake).require()
    now = datetime.datetime.now(datetime.UTC)
    spark = start_spark(session, master)
    from ackline.spark.reports.facts import gather

    with ending(spark, "there is no report"), session.notices.status("reading the lake"):
        found = gather(spark, Lake(lake), days, now)
    if html is not None:
        from ackline.spark.reports.page import page

        html.write_text(page(found, now), encoding="utf-8")
        session.notice(f"{html} has the report")
    if session.json:
        session.document(found)
    elif html is None:
        show(session, found, now)


def show(session: Session, report: Report, now: datetime.datetime) -> None:
    """The report in the terminal."""
    from ackline.spark.reports.shown import days_shown

    session.say(f"{days_shown(report.first_day, report.last_day)}, UTC", "bold")
    _show_freshness(session, report, now)
    _show_gaps(session, report)
    _show_throughput(session, report)
    _show_traffic(session, report)
    _show_slo(session, report)
    _show_errors(session, report)
    _show_stalls(session, report)
    _show_workers(session, report)
    _show_hours(session, report)
    _show_forecast(session, report)


def _title(session: Session, text: str) -> None:
    session.say()
    session.say(text, "bold")


def _show_freshness(session: Session, report: Report, now: datetime.datetime) -> None:
    from ackline.spark.reports.shown import freshness, is_stale

    look = "yellow" if is_stale(report.last_at, now) else "dim"
    session.say(freshness(report.last_at, report.read_at, now), look)


def _show_gaps(session: Session, report: Report) -> None:
    if not report.gaps:
        return
    session.say("Events are missing: the journal had dropped them before they were read.", "yellow")
    for gap in report.gaps:
        session.say(in_words(gap))
    session.say()


def _show_throughput(session: Session, report: Report) -> None:
    total = report.total
    session.say(
        f"{count(total['enqueued'], 'job')} enqueued, {total['completed']:,} completed "
        f"({total['at_once']:,} at the first try), {total['failed']:,} into the DLQ, "
        f"{total['cancelled']:,} cancelled"
    )
    values = [row["enqueued"] for row in report.hours]
    if values:
        _title(session, "Jobs an hour")
        session.say(Text(f"{sparkline(values)}  at most {max(values):,}", "cyan"))


def sparkline(values: list[float], width: int = WIDEST) -> str:
    """Values as a line of bars; if there are many, each bar is the largest of several."""
    each = -(-len(values) // width)
    tops = [max(values[start : start + each]) for start in range(0, len(values), each)]
    most = max(tops, default=0) or 1
    # Every value above zero has a visible bar.
    return "".join(BARS[-(-int(top * 8) // int(most) if top else 0) or bool(top)] for top in tops)


def _show_traffic(session: Session, report: Report) -> None:
    narrow = session.console.width < NARROW
    tables = (_counts(), _times(narrow)) if narrow else ({**_counts(), **_times(narrow)},)
    from ackline.spark.reports.shown import chosen

    for name, rows in report.traffic.items():
        _title(session, f"By {name}")
        if not rows:
            session.say("Nothing happened to jobs.")
            continue
        labels = [name] if name in ("tenant", "queue") else ["queue", name]
        for index, numbers in enumerate(tables):
            if index:
                session.say()
            spare = [(label, LEAST_NAME) for label in labels]
            table = new_table(*labels, *numbers, right=len(numbers), spare=spare)
            for row in chosen(rows):
                names = (_label(row, label) for label in labels)
                table.add_row(*names, *(cell(row) for cell in numbers.values()))
            session.say(table)
        _tell_left_out(session, rows)


def _counts() -> Cells:
    return {
        "enqueued": lambda row: f"{row['enqueued']:,}",
        "completed": lambda row: f"{row['completed']:,}",
        "retried": lambda row: _percent(row["retry_rate"]),
        "into DLQ": lambda row: _bad(_percent(row["failure_rate"]), row["failed"]),
    }


def _times(narrow: bool) -> Cells:
    quantiles = ("p50", "p99") if narrow else ("p50", "p90", "p99")
    return {
        f"{measure} {quantile}": _span_of(f"{measure}_{quantile}")
        for measure in ("wait", "run")
        for quantile in quantiles
    }


def _show_slo(session: Session, report: Report) -> None:
    from ackline.spark.reports.shown import MOST

    _title(session, "Objectives")
    table = new_table(
        "queue",
        "in line at most",
        "for",
        "deliveries",
        "late in line",
        "attained",
        right=5,
        spare=[("queue", LEAST_NAME)],
    )
    for row in report.slo[:MOST]:
        table.add_row(
            _label(row, "queue"),
            _span(row["objective_seconds"]),
            f"{row['target']:.0%}",
            f"{row['deliveries']:,}",
            _bad(f"{row['late']:,}", row["late"]),
            _bad(f"{row['attained']:.2%}", not row["kept"]),
        )
    session.say(table)
    _tell_left_out(session, report.slo)


def _show_errors(session: Session, report: Report) -> None:
    from ackline.spark.reports.shown import MOST, places_in_code

    _title(session, "What went into the DLQ, redriven since or not")
    if not report.errors:
        session.say("Nothing went into the DLQ.", "green")
        return
    rows = report.errors[:MOST]
    in_code = places_in_code(rows)
    # Errors of the same message are told apart by a column of their own, which is not cut off.
    within = ["in"] if any(in_code) else []
    table = new_table(
        *("jobs", "error", *within, "where", "for example"), spare=[("error", 20), ("where", 12)]
    )
    for row, place in zip(rows, in_code, strict=True):
        error = shorten(plain(f"{row['exception']}: {row['message']}"), 60)
        first = row["examples"][0]["id"] if row["examples"] else ""
        table.add_row(
            f"{row['jobs']:,}",
            Text(error, "red"),
            *([shorten(plain(place), 40)] if within else []),
            shorten(plain(", ".join(row["places"])), 40),
            shorten(plain(first), 36),
        )
    session.say(table)
    _tell_left_out(session, report.errors)


def _show_stalls(session: Session, report: Report) -> None:
    from ackline.spark.reports.shown import MOST

    _title(session, "Stalls and recovery")
    if not report.stalls:
        session.say("No worker was lost while it held a job.", "green")
        return
    table = new_table(
        "queue",
        "stalls",
        "held p50",
        "p99",
        "until again p50",
        "p99",
        right=5,
        spare=[("queue", LEAST_NAME)],
    )
    for row in report.stalls[:MOST]:
        spans = (row[name] for name in ("stall_p50", "stall_p99", "recovery_p50", "recovery_p99"))
        table.add_row(_label(row, "queue"), f"{row['stalled']:,}", *map(_span, spans))
    session.say(table)
    _tell_left_out(session, report.stalls)


def _show_workers(session: Session, report: Report) -> None:
    from ackline.spark.reports.shown import MOST

    _title(session, "Workers, the least reliable first")
    table = new_table(
        "worker",
        "queue",
        "deliveries",
        "errors",
        "lost",
        "reliability",
        right=4,
        spare=[("queue", LEAST_NAME)],
    )
    for row in report.workers[:MOST]:
        table.add_row(
            shorten(plain(row["worker"]), 40),
            _label(row, "queue"),
            f"{row['deliveries']:,}",
            f"{row['errors']:,}",
            f"{row['stalled']:,}",
            _bad(f"{row['reliability']:.2%}", row["stalled"]),
        )
    session.say(table)
    _tell_left_out(session, report.workers)


def _show_hours(session: Session, report: Report) -> None:
    from ackline.spark.reports.plots import WEEKDAYS

    _title(session, "Busiest hours, UTC")
    cells = {(row["weekday"], row["hour_of_day"]): row["enqueued"] for row in report.busiest}
    most = max(cells.values(), default=0) or 1
    session.say(Text("     " + "".join(f"{hour:02d}    " for hour in range(0, 24, 3)), "dim"))
    for weekday, name in enumerate(WEEKDAYS, start=1):
        line = "".join(_shade(cells.get((weekday, hour), 0.0) / most) * 2 for hour in range(24))
        session.say(Text(f"{name}  ", "dim") + Text(line, "cyan"))


def _shade(share: float) -> str:
    return " " if not share else "░▒▓█"[min(3, int(share * 4))]


def _show_forecast(session: Session, report: Report) -> None:
    from ackline.spark.reports.facts import LIKE
    from ackline.spark.reports.shown import MOST, foreseen, unforeseen

    _title(session, "The next week")
    known = foreseen(report.forecast)
    unknown = [_label(row, "queue") for row in report.forecast if row not in known]
    table = new_table(
        "queue",
        "jobs",
        "work",
        "handlers at most",
        "at",
        "like",
        right=5,
        spare=[("queue", LEAST_NAME)],
    )
    for row in known[:MOST]:
        table.add_row(
            _label(row, "queue"),
            _known(row["enqueued"], "{:,.0f}".format),
            _known(row["busy_seconds"], span),
            _known(row["peak_handlers"], "{:,}".format),
            _known(row["peak_hour"], "{:%a %H:%M}".format),
            LIKE[row["basis"]],
        )
    if known:
        session.say(table)
    _tell_left_out(session, known)
    if unknown:
        session.say(unforeseen(unknown))


def _tell_left_out(session: Session, rows: Rows) -> None:
    """Say how many rows of a list are not shown, and where they are."""
    from ackline.spark.reports.shown import left_out

    if said := left_out(rows):
        session.say(said, "dim")


def _label(row: dict[str, Any], name: str) -> str:
    if name == "queue" and row["tenant"] != "default":
        return plain(f"{row['tenant']}/{row['queue']}")
    return "not known" if row[name] is None else plain(str(row[name]))


def _span_of(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: _span(row[name])


def _span(seconds: float | None) -> str:
    return _known(seconds, lambda known: f"{known * 1000:.0f} ms" if known < 1 else span(known))


def _percent(share: float | None) -> str:
    return _known(share, "{:.1%}".format)


def _known(value: Any, shown: Callable[[Any], str]) -> str:
    return "-" if value is None else shown(value)


def _bad(text: str, bad: object) -> Text:
    return Text(text, "red" if bad else "")
