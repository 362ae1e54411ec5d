"""A week of a shop, as the report of its lake tells it: what the documentation shows."""

from __future__ import annotations

import datetime
import math
from typing import Any

from ackline.spark.reports.report_data import Report, Rows

MONDAY = datetime.datetime(2026, 11, 9, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
MINUTE = datetime.timedelta(minutes=1)
WEEK = 7 * 24
SUNDAY_NIGHT = MONDAY + WEEK * HOUR - 2 * MINUTE
"""When the lake was run for the last time."""

QUEUES = {"email": 62_000, "images": 21_000, "invoices": 8_400, "search": 4_900}
"""How many jobs of each came in the week."""

TIMES = {
    "email": {"wait": 0.18, "run": 0.22},
    "images": {"wait": 2.4, "run": 6.1},
    "invoices": {"wait": 0.31, "run": 0.9},
    "search": {"wait": 0.05, "run": 0.04},
}
"""Seconds in the middle: the tail is some times as long."""

TAIL = {"p50": 1.0, "p90": 3.2, "p99": 11.0, "max": 40.0}
STALLED = {"images": 14, "invoices": 2}


def load(hour: int) -> float:
    """How busy an hour of the week is: the days are, and weekends are less."""
    day, of_day = divmod(hour, 24)
    daily = 0.15 + max(0.0, math.sin((of_day - 6) / 16 * math.pi)) ** 2
    return daily * (0.45 if day > 4 else 1.0)


LOAD = [load(hour) for hour in range(WEEK)]
SHARE = [one / sum(LOAD) for one in LOAD]


def shop_report() -> Report:
    """The report as `gather` would make it."""
    queues = [_traffic(name, jobs) for name, jobs in QUEUES.items()]
    return Report(
        lake="/data/lake",
        store="redis://queue.internal:6379/0",
        first_day=MONDAY.date(),
        last_day=(MONDAY + (WEEK - 1) * HOUR).date(),
        last_at=SUNDAY_NIGHT - MINUTE,
        read_at=SUNDAY_NIGHT,
        total=_total(queues),
        hours=[_hour(number) for number in range(WEEK)],
        traffic={
            "tenant": [_total(queues)],
            "queue": queues,
            "kind": [{**row, "kind": KINDS[row["queue"]]} for row in queues],
            "priority": [{**row, "priority": 5} for row in queues],
        },
        slo=[_objective(name) for name in ("images", "invoices", "email", "search")],
        errors=_errors(),
        stalled_queues=[row for row in queues if row["stalled"]],
        workers=_workers(),
        busiest=_busiest(),
        forecast=[_coming(name) for name in ("images", "email", "invoices", "search")],
        forecast_hours=_handlers(),
    )


KINDS = {"email": "welcome", "images": "thumbnail", "invoices": "monthly", "search": "index"}
FAILED = {"email": 41, "images": 92, "invoices": 4, "search": 0}


def _traffic(queue: str, enqueued: int) -> dict[str, Any]:
    failed, retried = FAILED[queue], 6 * FAILED[queue]
    completed = enqueued - failed
    counts = {"enqueued": enqueued, "claimed": enqueued + retried, "completed": completed}
    counts |= {"at_once": completed - 5 * failed, "retried": retried, "failed": failed}
    counts |= {"stalled": STALLED.get(queue, 0), "cancelled": enqueued // 900}
    busy = enqueued * TIMES[queue]["run"] * 1.4
    names = {"tenant": "default", "queue": queue}
    return {**names, **counts, **_rates(counts), "busy_seconds": busy, **_spans(queue)}


def _total(queues: Rows) -> dict[str, Any]:
    names = ("enqueued", "claimed", "completed", "at_once", "retried", "failed", "stalled")
    counts = {name: sum(row[name] for row in queues) for name in (*names, "cancelled")}
    busy = sum(row["busy_seconds"] for row in queues)
    rates = _rates(counts)
    return {"tenant": "default", **counts, **rates, "busy_seconds": busy, **_spans("email")}


def _rates(counts: dict[str, int]) -> dict[str, float]:
    return {
        "retry_rate": counts["retried"] / counts["claimed"],
        "failure_rate": counts["failed"] / counts["enqueued"],
    }


def _spans(queue: str) -> dict[str, float]:
    wait, run = TIMES[queue]["wait"], TIMES[queue]["run"]
    middles = {"wait": wait, "run": run, "total": wait + run, "recovery": 0.1}
    stalls = {"stall_p50": 31.0, "stall_p90": 33.0, "stall_p99": 34.0, "stall_max": 34.0}
    return {f"{what}_{q}": one * TAIL[q] for what, one in middles.items() for q in TAIL} | stalls


def _hour(number: int) -> dict[str, Any]:
    jobs = round(sum(QUEUES.values()) * SHARE[number])
    # A host was down on Thursday.
    failed = 60 if 3 * 24 + 14 <= number < 3 * 24 + 16 else round(jobs / 3000)
    counts = {"enqueued": jobs, "completed": jobs - failed, "failed": failed, "retried": 6 * failed}
    return {"hour": MONDAY + number * HOUR, **counts, "stalled": 0, "busy_seconds": jobs * 2.0}


def _objective(queue: str) -> dict[str, Any]:
    seconds = {"images": 60.0, "invoices": 5.0, "email": 5.0, "search": 5.0}[queue]
    attained = {"images": 0.9827, "invoices": 0.9931, "email": 0.9984, "search": 0.9999}[queue]
    return {
        "tenant": "default",
        "queue": queue,
        "objective_seconds": seconds,
        "target": 0.99,
        "deliveries": QUEUES[queue],
        "late": 12 if queue == "images" else 0,
        "attained": attained,
        "kept": attained >= 0.99,
    }


def _errors() -> Rows:
    thursday = MONDAY + (3 * 24 + 14) * HOUR
    samples = [
        ("TimeoutError", "no answer from '…' in # s", 89, ["images thumbnail"], "thumb-4711"),
        ("SMTPRecipientsRefused", "# mailbox '…' is full", 41, ["email welcome"], "mail-1893"),
        ("KeyError", "'…'", 7, ["images thumbnail", "invoices monthly"], "bill-0207"),
    ]
    return [
        {
            "tenant": "default",
            "fingerprint": f"{number:016x}",
            "way": "handlers.py:handle",
            "exception": exception,
            "message": message,
            "jobs": jobs,
            "places": places,
            "first_at": thursday,
            "last_at": thursday + 2 * HOUR,
            "examples": [{"at": thursday, "id": id, "message": message, "traceback": None}],
        }
        for number, (exception, message, jobs, places, id) in enumerate(samples, start=1)
    ]


def _workers() -> Rows:
    samples = [("gpu-2", "images", 9_800, 81, 14), ("desk-1", "invoices", 8_402, 9, 2)]
    samples += [("gpu-1", "images", 11_210, 15, 0), ("mail-1", "email", 62_048, 246, 0)]
    return [
        {
            "tenant": "default",
            "queue": queue,
            "worker": worker,
            "deliveries": deliveries,
            "completed": deliveries - errors,
            "errors": errors,
            "stalled": lost,
            "reliability": 1 - lost / deliveries,
            "given_back": 0,
            "last_at": MONDAY,
            "busy_seconds": deliveries * TIMES[queue]["run"],
            "run_p99": _spans(queue)["run_p99"],
        }
        for worker, queue, deliveries, errors, lost in samples
    ]


def _busiest() -> Rows:
    jobs = sum(QUEUES.values())
    return [
        {"weekday": hour // 24 + 1, "hour_of_day": hour % 24, "enqueued": jobs * SHARE[hour]}
        for hour in range(WEEK)
    ]


def _coming(queue: str) -> dict[str, Any]:
    busy = QUEUES[queue] * TIMES[queue]["run"] * 1.5
    peak = max(range(WEEK), key=SHARE.__getitem__)
    return {
        "tenant": "default",
        "queue": queue,
        "basis": "week",
        "enqueued": QUEUES[queue] * 1.04,
        "busy_seconds": busy,
        "peak_hour": MONDAY + (WEEK + peak) * HOUR,
        "peak_handlers": math.ceil(busy * SHARE[peak] / 3600 / 0.7),
    }


def _handlers() -> Rows:
    busy = sum(jobs * TIMES[queue]["run"] * 1.5 for queue, jobs in QUEUES.items())
    return [
        {
            "hour": MONDAY + (WEEK + number) * HOUR,
            "busy_seconds": busy * share,
            "enqueued": sum(QUEUES.values()) * share,
            "handlers": math.ceil(busy * share / 3600 / 0.7),
        }
        for number, share in enumerate(SHARE)
    ]
