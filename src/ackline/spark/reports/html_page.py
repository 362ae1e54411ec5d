"""A report as a single HTML file without scripts."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from ackline.spark.reports.charts import (
    bar_chart,
    format_duration,
    format_short,
    format_time,
    heatmap,
    line_chart,
)
from ackline.spark.reports.report_data import FORECAST_BASIS, Report, Rows
from ackline.spark.reports.row_selection import (
    SHOWN_ROWS,
    distinguishing_paths,
    format_days,
    freshness,
    hidden_rows_note,
    is_stale,
    no_forecast_note,
    select_traffic,
    with_forecast,
)

Cell = Callable[[dict[str, Any]], str]

QUANTILES = ("p50", "p90", "p99")

CHART_ROWS = 12
"""Rows of a chart of quantiles."""


def render_page(report: Report, made_at: datetime.datetime) -> str:
    """The whole page."""
    style = files("ackline.spark.reports").joinpath("page.css").read_text()
    sections = {
        "traffic": ("Throughput", _throughput(report)),
        "latency": ("Waiting and running", _latency(report)),
        "slo": ("Objectives", _slo(report)),
        "errors": ("Errors", _errors(report)),
        "expired": ("Expired leases and recovery", _expired(report)),
        "workers": ("Workers", _workers(report)),
        "hours": ("Busiest hours", _busiest_hours(report)),
        "forecast": ("The next week", _forecast(report)),
    }
    links = "".join(f'<a href="#{id}">{title}</a>' for id, (title, _) in sections.items())
    body = "".join(
        f'<section id="{id}"><h2>{title}</h2>{text}</section>'
        for id, (title, text) in sections.items()
    )
    days = format_days(report.first_day, report.last_day)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Ackline report, {days}</title><style>{style}</style></head><body><main>"
        f"<h1>Ackline report</h1><p>{days}, all times UTC. {escape(report.store)}</p>"
        f"{_freshness(report, made_at)}<nav>{links}</nav>"
        f"{_gaps(report)}{_cards(report.total)}{body}"
        f"<footer>Made {format_time(made_at)} from {escape(report.lake)}.</footer>"
        "</main></body></html>"
    )


# --- sections ---


def _freshness(report: Report, made_at: datetime.datetime) -> str:
    text = f"{freshness(report.last_at, report.read_at, made_at)}."
    return f'<p class="bad">{text}</p>' if is_stale(report.last_at, made_at) else f"<p>{text}</p>"


def _gaps(report: Report) -> str:
    if not report.gaps:
        return ""
    rows = [msgspec.structs.asdict(gap) for gap in report.gaps]
    columns: dict[str, Cell] = {
        "after cursor": lambda row: escape(row["after"]),
        "up to": lambda row: escape(row["until"]),
        "of before": _optional("retained_from", _at),
        "skipped at": _optional("skipped_at", _at),
        "stretches": lambda row: f"{row['count']:,}",
    }
    return (
        '<section id="gaps"><h2 class="bad">Events are missing</h2><p>The journal had dropped '
        "them before they were read, so they are in none of these figures.</p>"
        f"{_table(rows, {'queue': lambda row: escape(row['queue'])}, columns)}</section>"
    )


def _cards(total: dict[str, Any]) -> str:
    failed, stalled = total["failed"], total["stalled"]
    return (
        '<div class="cards">'
        + "".join(
            f'<div class="card {css_class}"><b>{value}</b><span>{name}</span></div>'
            for name, value, css_class in (
                ("enqueued", format_short(total["enqueued"]), ""),
                ("completed", format_short(total["completed"]), "good"),
                ("moved to the DLQ", format_short(failed), "bad" if failed else ""),
                ("leases expired", format_short(stalled), ""),
                ("wait, 99 of 100 within", format_duration(total["wait_p99"]), ""),
                ("run, 99 of 100 within", format_duration(total["run_p99"]), ""),
            )
        )
        + "</div>"
    )


def _throughput(report: Report) -> str:
    times = [row["hour"] for row in report.hours]
    series = [
        (label, colour, [row[name] for row in report.hours])
        for name, label, colour in (
            ("enqueued", "enqueued", "one"),
            ("completed", "completed", "two"),
            ("failed", "moved to the DLQ", "three"),
        )
    ]
    columns: dict[str, Cell] = {
        "enqueued": _count("enqueued"),
        "completed": _count("completed"),
        "on the first attempt": lambda row: _share(row["at_once"], row["completed"]),
        "retried": _rate("retry_rate"),
        "to the DLQ": _failed,
        "cancelled": _count("cancelled"),
        "work": lambda row: format_duration(row["busy_seconds"]),
    }
    tables = [
        f"<h3>By {name}</h3>{_table(select_traffic(rows), _name_columns(name), columns)}"
        f"{_hidden_rows(rows)}"
        for name, rows in report.traffic.items()
    ]
    return line_chart(times, series, "Jobs per hour") + "".join(tables)


def _latency(report: Report) -> str:
    queues = len(report.traffic["queue"])
    which = "by queue" if queues <= CHART_ROWS else f"the {CHART_ROWS} busiest of {queues:,} queues"
    charts = [
        bar_chart(_spans(report, measure), f"{title}, {which}, on a logarithmic scale")
        for measure, title in (("wait", "Wait time"), ("run", "Run time"))
    ]
    columns: dict[str, Cell] = {
        f"{measure} {q}": _span(f"{measure}_{q}")
        for measure in ("wait", "run", "total")
        for q in QUANTILES
    }
    tables = [
        f"<h3>By {name}</h3>{_table(select_traffic(rows), _name_columns(name), columns)}"
        f"{_hidden_rows(rows)}"
        for name, rows in report.traffic.items()
    ]
    return "".join((*charts, *tables))


def _spans(report: Report, measure: str) -> list[tuple[str, list[tuple[str, float | None]]]]:
    """The quantiles of the busiest queues, each under its name."""
    return [
        (_name_of(row, "queue"), [(q, row[f"{measure}_{q}"]) for q in QUANTILES])
        for row in report.traffic["queue"][:CHART_ROWS]
    ]


def _slo(report: Report) -> str:
    columns: dict[str, Cell] = {
        "wait objective": _span("objective_seconds"),
        "for": lambda row: f"{row['target']:.0%}",
        "deliveries": _count("deliveries"),
        "waited too long": _count("late"),
        "attained": lambda row: _highlight(f"{row['attained']:.2%}", row["kept"]),
        "": lambda row: _highlight("kept" if row["kept"] else "missed", row["kept"]),
    }
    return _shortened_table(report.slo, {"queue": _name("queue")}, columns)


def _errors(report: Report) -> str:
    if not report.errors:
        return "<p>No jobs were moved to the DLQ.</p>"
    rows = report.errors[:SHOWN_ROWS]
    clusters = "".join(map(_error_group, rows, distinguishing_paths(rows)))
    intro = "<p>Errors of jobs moved to the DLQ; jobs that were redriven since count, too.</p>"
    return f"{intro}{clusters}{_hidden_rows(report.errors)}"


def _error_group(row: dict[str, Any], place: str) -> str:
    within = f" in {escape(place)}" if place else ""
    examples = "".join(
        f"<h3>{escape(one['id'])}, {format_time(one['at'])}</h3>"
        f"<pre>{escape(one['traceback'] or one['message'] or '')}</pre>"
        for one in row["examples"]
    )
    where = ", ".join(row["places"])
    times = f"first {format_time(row['first_at'])}, last {format_time(row['last_at'])}"
    return (
        f"<details><summary><b>{row['jobs']:,}</b><code>{escape(row['exception'])}: "
        f"{escape(row['message'])}{within}</code></summary><p>{escape(where)}, {times}, "
        f"fingerprint <code>{row['fingerprint']}</code></p>"
        + (f"<p><code>{escape(row['way'])}</code></p>" if row["way"] else "")
        + f"{examples}</details>"
    )


def _expired(report: Report) -> str:
    if not report.stalled_queues:
        return "<p>No leases expired.</p>"
    columns: dict[str, Cell] = {
        "expired": _count("stalled"),
        **{f"leased {q}": _span(f"stall_{q}") for q in QUANTILES},
        **{f"recovery {q}": _span(f"recovery_{q}") for q in QUANTILES},
    }
    intro = "<p>How long jobs were leased, and how long until they were delivered again.</p>"
    return intro + _shortened_table(report.stalled_queues, {"queue": _name("queue")}, columns)


def _workers(report: Report) -> str:
    columns: dict[str, Cell] = {
        "deliveries": _count("deliveries"),
        "completed": _count("completed"),
        "errors": _count("errors"),
        "expired": _count("stalled"),
        "reliability": lambda row: _highlight(f"{row['reliability']:.2%}", not row["stalled"]),
        "run p99": _span("run_p99"),
        "work": _span("busy_seconds"),
    }
    names = {"worker": lambda row: escape(row["worker"]), "queue": _name("queue")}
    return "<p>Least reliable first.</p>" + _shortened_table(report.workers, names, columns)


def _busiest_hours(report: Report) -> str:
    cells = {(row["weekday"], row["hour_of_day"]): row["enqueued"] for row in report.busiest}
    return heatmap(cells, "Jobs enqueued in an hour of the week, on average")


def _forecast(report: Report) -> str:
    known = with_forecast(report.forecast)
    unknown = [_name_of(row, "queue") for row in report.forecast if row not in known]
    missing = f"<p>{escape(no_forecast_note(unknown))}</p>" if unknown else ""
    if not known:
        return missing or _table([], {}, {})
    times = [row["hour"] for row in report.forecast_hours]
    handlers = [("handlers", "four", [row["handlers"] for row in report.forecast_hours])]
    columns: dict[str, Cell] = {
        "jobs": _optional("enqueued", format_short),
        "work": _span("busy_seconds"),
        "peak handlers": _optional("peak_handlers", "{:,}".format),
        "at": _optional("peak_hour", format_time),
        "based on": lambda row: FORECAST_BASIS[row["basis"]],
    }
    intro = "<p>How many handlers must run at the same time, if each is busy 70 % of the time.</p>"
    chart = line_chart(times, handlers, "Handlers needed, by hour")
    return intro + chart + _shortened_table(known, {"queue": _name("queue")}, columns) + missing


# --- tables ---


def _table(rows: Rows, names: dict[str, Cell], numbers: dict[str, Cell]) -> str:
    if not rows:
        return "<p>No data.</p>"
    head = "".join(f"<th>{name}</th>" for name in names)
    head += "".join(f'<th class="number">{name}</th>' for name in numbers)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{cell(row)}</td>" for cell in names.values())
        + "".join(f'<td class="number">{cell(row)}</td>' for cell in numbers.values())
        + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _shortened_table(rows: Rows, names: dict[str, Cell], numbers: dict[str, Cell]) -> str:
    """The first rows as a table, and how many more there are."""
    return _table(rows[:SHOWN_ROWS], names, numbers) + _hidden_rows(rows)


def _hidden_rows(rows: Rows) -> str:
    text = re.sub("`(.+?)`", r"<code>\1</code>", escape(hidden_rows_note(rows)))
    return f"<p>{text}</p>" if text else ""


def _name_columns(column: str) -> dict[str, Cell]:
    if column in ("tenant", "queue"):
        return {column: _name(column)}
    return {"queue": _name("queue"), column: _name(column)}


def _name(column: str) -> Cell:
    return lambda row: escape(_name_of(row, column))


def _name_of(row: dict[str, Any], column: str) -> str:
    """The name of a row, not escaped yet."""
    value = row[column]
    if column == "queue" and row["tenant"] != "default":
        return f"{row['tenant']}/{value}"
    return "unknown" if value is None else str(value) or "-"


def _count(column: str) -> Cell:
    return lambda row: f"{row[column]:,}"


def _span(column: str) -> Cell:
    return lambda row: format_duration(row[column])


def _optional(column: str, shown: Callable[[Any], str]) -> Cell:
    return lambda row: "-" if row[column] is None else shown(row[column])


def _at(seconds: float) -> str:
    return format_time(datetime.datetime.fromtimestamp(seconds, datetime.UTC))


def _rate(column: str) -> Cell:
    return _optional(column, "{:.1%}".format)


def _failed(row: dict[str, Any]) -> str:
    """The share that went into the DLQ, in red if it is not zero."""
    text = _rate("failure_rate")(row)
    return _highlight(text, good=False) if row["failed"] else text


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _highlight(text: str, good: bool) -> str:
    return f'<span class="{"good" if good else "bad"}">{text}</span>'
