"""`ackline pipeline report`: report on a lake, in the terminal or as an HTML page."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import duration, pluralize, safe, truncate
from ackline.cli.pipeline import pipeline
from ackline.cli.pipeline.gap_text import gap_text
from ackline.cli.pipeline.preflight import (
    lake_option,
    master_option,
    require_spark,
    require_writable_file,
    start_spark,
)
from ackline.cli.pipeline.spark_errors import stopping_spark
from ackline.cli.session import Session

if TYPE_CHECKING:
    from ackline.spark.reports.report_data import Report, Rows

Cells = dict[str, Callable[[dict[str, Any]], str | Text]]
"""The columns of a table, each with a function that writes its cell."""

NARROW_WIDTH = 120
"""In a narrower terminal, counts and times are two tables."""

BARS = " ▁▂▃▄▅▆▇█"
SPARKLINE_WIDTH = 72
MIN_NAME_WIDTH = 12
"""Characters of a name that stay in a narrow terminal."""


@command("report", group=pipeline)
@lake_option
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write an HTML page with plots to this file.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the last N days, counted back from the last day with events.",
)
@master_option
def report(
    session: Session, lake: str, html: Path | None, days: int | None, master: str | None
) -> None:
    """Report on a lake: traffic, wait times, errors, workers and a forecast.

    It reads the lake as the last `ackline pipeline run` left it, and needs no store.
    """
    require_spark()
    from ackline.spark.lake.lake import Lake

    if html is not None:
        require_writable_file(html)
    Lake(lake).require()
    now = datetime.datetime.now(datetime.UTC)
    spark = start_spark(session, master)
    from ackline.spark.reports.report_data import collect_report

    with stopping_spark(spark, "no report was made"), session.notices.status("reading the lake"):
        found = collect_report(spark, Lake(lake), days, now)
    if html is not None:
        from ackline.spark.reports.html_page import render_page

        html.write_text(render_page(found, now), encoding="utf-8")
        session.notice(f"report written to {html}")
    if session.json:
        session.print_json(found)
    elif html is None:
        show(session, found, now)


def show(session: Session, report: Report, now: datetime.datetime) -> None:
    """Print the report."""
    from ackline.spark.reports.row_selection import format_days

    session.print(f"{format_days(report.first_day, report.last_day)}, UTC", "bold")
    _show_freshness(session, report, now)
    _show_gaps(session, report)
    _show_throughput(session, report)
    _show_traffic(session, report)
    _show_slo(session, report)
    _show_errors(session, report)
    _show_expired(session, report)
    _show_workers(session, report)
    _show_hours(session, report)
    _show_forecast(session, report)


def _title(session: Session, text: str) -> None:
    session.print()
    session.print(text, "bold")


def _show_freshness(session: Session, report: Report, now: datetime.datetime) -> None:
    from ackline.spark.reports.row_selection import freshness, is_stale

    style = "yellow" if is_stale(report.last_at, now) else "dim"
    session.print(freshness(report.last_at, report.read_at, now), style)


def _show_gaps(session: Session, report: Report) -> None:
    if not report.gaps:
        return
    session.print("Events are missing: the journal dropped them before they were read.", "yellow")
    for gap in report.gaps:
        session.print(gap_text(gap))
    session.print()


def _show_throughput(session: Session, report: Report) -> None:
    total = report.total
    session.print(
        f"{pluralize(total['enqueued'], 'job')} enqueued, {total['completed']:,} completed "
        f"({total['at_once']:,} on the first attempt), {total['failed']:,} to the DLQ, "
        f"{total['cancelled']:,} cancelled"
    )
    values = [row["enqueued"] for row in report.hours]
    if values:
        _title(session, "Jobs per hour")
        session.print(Text(f"{sparkline(values)}  max {max(values):,}", "cyan"))


def sparkline(values: list[float], width: int = SPARKLINE_WIDTH) -> str:
    """Values as a line of bars; if there are too many, each bar is the maximum of several."""
    each = -(-len(values) // width)
    maxima = [max(values[start : start + each]) for start in range(0, len(values), each)]
    highest = max(maxima, default=0) or 1
    # Every value above zero gets a visible bar.
    return "".join(
        BARS[-(-int(top * 8) // int(highest) if top else 0) or bool(top)] for top in maxima
    )


def _show_traffic(session: Session, report: Report) -> None:
    narrow = session.console.width < NARROW_WIDTH
    tables = (_counts(), _durations(narrow)) if narrow else ({**_counts(), **_durations(narrow)},)
    from ackline.spark.reports.row_selection import select_traffic

    for name, rows in report.traffic.items():
        _title(session, f"By {name}")
        if not rows:
            session.print("No events.")
            continue
        labels = [name] if name in ("tenant", "queue") else ["queue", name]
        for index, numbers in enumerate(tables):
            if index:
                session.print()
            shrinkable = [(label, MIN_NAME_WIDTH) for label in labels]
            table = new_table(*labels, *numbers, right=len(numbers), shrinkable=shrinkable)
            for row in select_traffic(rows):
                names = (_label(row, label) for label in labels)
                table.add_row(*names, *(cell(row) for cell in numbers.values()))
            session.print(table)
        _print_omitted(session, rows)


def _counts() -> Cells:
    return {
        "enqueued": lambda row: f"{row['enqueued']:,}",
        "completed": lambda row: f"{row['completed']:,}",
        "retried": lambda row: _percent(row["retry_rate"]),
        "to DLQ": lambda row: _bad(_percent(row["failure_rate"]), row["failed"]),
    }


def _durations(narrow: bool) -> Cells:
    quantiles = ("p50", "p99") if narrow else ("p50", "p90", "p99")
    return {
        f"{measure} {quantile}": _duration_of(f"{measure}_{quantile}")
        for measure in ("wait", "run")
        for quantile in quantiles
    }


def _show_slo(session: Session, report: Report) -> None:
    from ackline.spark.reports.row_selection import SHOWN_ROWS

    _title(session, "Objectives")
    table = new_table(
        "queue",
        "wait objective",
        "for",
        "deliveries",
        "waited too long",
        "attained",
        right=5,
        shrinkable=[("queue", MIN_NAME_WIDTH)],
    )
    for row in report.slo[:SHOWN_ROWS]:
        table.add_row(
            _label(row, "queue"),
            _duration(row["objective_seconds"]),
            f"{row['target']:.0%}",
            f"{row['deliveries']:,}",
            _bad(f"{row['late']:,}", row["late"]),
            _bad(f"{row['attained']:.2%}", not row["kept"]),
        )
    session.print(table)
    _print_omitted(session, report.slo)


def _show_errors(session: Session, report: Report) -> None:
    from ackline.spark.reports.row_selection import SHOWN_ROWS, distinguishing_paths

    _title(session, "Errors of jobs moved to the DLQ, redriven since or not")
    if not report.errors:
        session.print("No jobs were moved to the DLQ.", "green")
        return
    rows = report.errors[:SHOWN_ROWS]
    in_code = distinguishing_paths(rows)
    # A column that is not cut off distinguishes errors of the same message.
    within = ["in"] if any(in_code) else []
    table = new_table(
        *("jobs", "error", *within, "where", "example"),
        shrinkable=[("error", 20), ("where", 12)],
    )
    for row, path in zip(rows, in_code, strict=True):
        error = truncate(safe(f"{row['exception']}: {row['message']}"), 60)
        first = row["examples"][0]["id"] if row["examples"] else ""
        table.add_row(
            f"{row['jobs']:,}",
            Text(error, "red"),
            *([truncate(safe(path), 40)] if within else []),
            truncate(safe(", ".join(row["places"])), 40),
            truncate(safe(first), 36),
        )
    session.print(table)
    _print_omitted(session, report.errors)


def _show_expired(session: Session, report: Report) -> None:
    from ackline.spark.reports.row_selection import SHOWN_ROWS

    _title(session, "Expired leases and recovery")
    if not report.stalled_queues:
        session.print("No leases expired.", "green")
        return
    table = new_table(
        "queue",
        "expired",
        "leased p50",
        "p99",
        "recovery p50",
        "p99",
        right=5,
        shrinkable=[("queue", MIN_NAME_WIDTH)],
    )
    for row in report.stalled_queues[:SHOWN_ROWS]:
        spans = (row[name] for name in ("stall_p50", "stall_p99", "recovery_p50", "recovery_p99"))
        table.add_row(_label(row, "queue"), f"{row['stalled']:,}", *map(_duration, spans))
    session.print(table)
    _print_omitted(session, report.stalled_queues)


def _show_workers(session: Session, report: Report) -> None:
    from ackline.spark.reports.row_selection import SHOWN_ROWS

    _title(session, "Workers, least reliable first")
    table = new_table(
        "worker",
        "queue",
        "deliveries",
        "errors",
        "expired",
        "reliability",
        right=4,
        shrinkable=[("queue", MIN_NAME_WIDTH)],
    )
    for row in report.workers[:SHOWN_ROWS]:
        table.add_row(
            truncate(safe(row["worker"]), 40),
            _label(row, "queue"),
            f"{row['deliveries']:,}",
            f"{row['errors']:,}",
            f"{row['stalled']:,}",
            _bad(f"{row['reliability']:.2%}", row["stalled"]),
        )
    session.print(table)
    _print_omitted(session, report.workers)


def _show_hours(session: Session, report: Report) -> None:
    from ackline.spark.reports.charts import WEEKDAYS

    _title(session, "Busiest hours, UTC")
    cells = {(row["weekday"], row["hour_of_day"]): row["enqueued"] for row in report.busiest}
    highest = max(cells.values(), default=0) or 1
    session.print(Text("     " + "".join(f"{hour:02d}    " for hour in range(0, 24, 3)), "dim"))
    for weekday, name in enumerate(WEEKDAYS, start=1):
        line = "".join(_shade(cells.get((weekday, hour), 0.0) / highest) * 2 for hour in range(24))
        session.print(Text(f"{name}  ", "dim") + Text(line, "cyan"))


def _shade(fraction: float) -> str:
    return " " if not fraction else "░▒▓█"[min(3, int(fraction * 4))]


def _show_forecast(session: Session, report: Report) -> None:
    from ackline.spark.reports.report_data import FORECAST_BASIS
    from ackline.spark.reports.row_selection import SHOWN_ROWS, no_forecast_note, with_forecast

    _title(session, "The next week")
    known = with_forecast(report.forecast)
    unknown = [_label(row, "queue") for row in report.forecast if row not in known]
    table = new_table(
        "queue",
        "jobs",
        "work",
        "peak handlers",
        "at",
        "based on",
        right=5,
        shrinkable=[("queue", MIN_NAME_WIDTH)],
    )
    for row in known[:SHOWN_ROWS]:
        table.add_row(
            _label(row, "queue"),
            _or_dash(row["enqueued"], "{:,.0f}".format),
            _or_dash(row["busy_seconds"], duration),
            _or_dash(row["peak_handlers"], "{:,}".format),
            _or_dash(row["peak_hour"], "{:%a %H:%M}".format),
            FORECAST_BASIS[row["basis"]],
        )
    if known:
        session.print(table)
    _print_omitted(session, known)
    if unknown:
        session.print(no_forecast_note(unknown))


def _print_omitted(session: Session, rows: Rows) -> None:
    """Print how many rows of a list are not shown, and where they are."""
    from ackline.spark.reports.row_selection import hidden_rows_note

    if note := hidden_rows_note(rows):
        session.print(note, "dim")


def _label(row: dict[str, Any], name: str) -> str:
    if name == "queue" and row["tenant"] != "default":
        return safe(f"{row['tenant']}/{row['queue']}")
    return "unknown" if row[name] is None else safe(str(row[name]))


def _duration_of(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: _duration(row[name])


def _duration(seconds: float | None) -> str:
    return _or_dash(
        seconds, lambda known: f"{known * 1000:.0f} ms" if known < 1 else duration(known)
    )


def _percent(fraction: float | None) -> str:
    return _or_dash(fraction, "{:.1%}".format)


def _or_dash(value: Any, write: Callable[[Any], str]) -> str:
    return "-" if value is None else write(value)


def _bad(text: str, bad: object) -> Text:
    return Text(text, "red" if bad else "")
