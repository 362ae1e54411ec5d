"""Tables of measurements, from the files that the benchmarks wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.reference_pages.markdown import table

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"

NOT_MEASURED = "*Not measured for this release yet.*"


HEAD = ("one worker process", "one call each", "in bulk", "100 callers", "drain", "start, p50 ms")
RATES = ("one_per_second", "bulk_per_second", "concurrent_per_second", "drain_per_second")


def speed() -> str:
    """The short tables of the README, from the comparisons on Redis and PostgreSQL."""
    files = {"Redis": "compare_redis.json", "PostgreSQL": "compare_postgres.json"}
    comparisons = {
        name: json.loads((FIGURES / file).read_text())
        for name, file in files.items()
        if (FIGURES / file).exists()
    }
    return (
        "\n\n".join(_comparison(name, each) for name, each in comparisons.items()) or NOT_MEASURED
    )


def _comparison(store: str, measured: dict[str, Any]) -> str:
    queues = [queue for queue in measured["queues"] if "drain_per_second" in queue["figures"]]
    queues.sort(key=lambda queue: -queue["figures"]["drain_per_second"])
    rows = [(_queue(queue), *_figures(queue["figures"])) for queue in queues]
    figures = table((f"jobs/s on {store}, {HEAD[0]}", *HEAD[1:]), rows, right=len(HEAD) - 1)
    return f"{figures}\n\n{measured['server']}, {measured['durability']}; {measured['machine']}."


def _queue(queue: dict[str, Any]) -> str:
    name = ", ".join(filter(None, (queue["name"], queue["variant"])))
    return f"**{name}**" if queue["name"] == "Ackline" else name


def _figures(figures: dict[str, float]) -> list[str]:
    rates = [_number(figures.get(name), 0) for name in RATES]
    return [*rates, _number(figures.get("start_p50_ms"), 2)]


def compare_huey_sqlite() -> str:
    """The figures that `benchmarks/compare_huey_sqlite.py --json` wrote."""
    file = FIGURES / "compare_huey_sqlite.json"
    if not file.exists():
        return NOT_MEASURED
    rows = [
        (name, *(_number(figures.get(key), 0) for key in ("enqueue_one", "enqueue_bulk", "drain")))
        for name, figures in json.loads(file.read_text()).items()
    ]
    head = ("jobs/s, one worker process", "enqueue, one call", "enqueue, bulk", "drain")
    return table(head, rows, right=3)


def bench() -> str:
    """The figures that `ackline bench --json` wrote."""
    file = FIGURES / "bench.json"
    if not file.exists():
        return NOT_MEASURED
    measured = json.loads(file.read_text())
    rows = [
        (
            each["name"],
            _number(each.get("per_second"), 0),
            _number(each.get("p50_ms"), 2),
            _number(each.get("p99_ms"), 2),
        )
        for each in measured["measurements"]
    ]
    figures = table(("measure", "jobs/s", "p50 ms", "p99 ms"), rows, right=3)
    about = f"{measured['machine']}, Python {measured['python']}"
    return f"{figures}\n\nMeasured on {about}, durability {measured['durability']}."


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def spark() -> str:
    """The figures that `benchmarks/spark.py --json` wrote."""
    file = FIGURES / "spark.json"
    if not file.exists():
        return NOT_MEASURED
    measured = json.loads(file.read_text())
    rows = [
        (
            *(row["measure"], row["store"], _level(row), row.get("against", "")),
            *(_number(row.get(name), 0) for name in ("per_second", "against_per_second")),
            _number(row.get("ratio"), 2),
        )
        for row in measured["figures"]
    ]
    head = ("", "store", "durability", "against", "per second", "the other's", "ratio")
    figures = table(head, rows, right=3)
    return "\n\n".join((figures, f"{measured['machine']}.", *_notes(measured["figures"])))


def _level(row: dict[str, Any]) -> str:
    return str(row.get("durability", "")).partition(":")[0]


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    """Text below the table: the meaning of each durability, and the rounds of a figure."""
    meanings = dict.fromkeys(row["durability"] for row in rows if "durability" in row)
    rounds = [
        "Round by round: " + ", ".join(_number(rate, 0) for rate in row["rounds_per_second"]) + "."
        for row in rows
        if "rounds_per_second" in row
    ]
    durability = [" ".join(f"Durability {meaning}." for meaning in meanings)] if meanings else []
    return [*durability, *rounds]


def service() -> str:
    """The figures that `benchmarks/service.py --json` wrote."""
    file = FIGURES / "service.json"
    if not file.exists():
        return NOT_MEASURED
    measured = json.loads(file.read_text())
    rows = [
        (
            row["measure"],
            row["store"],
            _number(row.get("per_second"), 0),
            _number(row.get("of_echo"), 2),
            _number(row.get("p50_ms"), 2),
            _number(row.get("library_p50_ms"), 2),
        )
        for row in measured["figures"]
    ]
    head = ("", "store", "per second", "of echo", "p50 ms", "p50 ms of the library")
    figures = table(head, rows, right=4)
    return f"{figures}\n\n{measured['connections']} connections; {measured['machine']}."


def recovery() -> str:
    """The table that `python -m tests.harness.faults.recovery_times` printed."""
    return _as_printed("recovery.md")


def compare_redis() -> str:
    """The tables that `benchmarks/compare_redis.py --markdown` wrote."""
    return _as_printed("compare_redis.md")


def compare_postgres() -> str:
    """The tables that `benchmarks/compare_postgres.py --markdown` wrote."""
    return _as_printed("compare_postgres.md")


def open_snapshot() -> str:
    """What `benchmarks/compare_postgres.py --held-snapshot --markdown` wrote."""
    return _as_printed("held_snapshot.md")


def long_drain() -> str:
    """What `benchmarks/compare_postgres.py --long-drain --markdown` wrote."""
    return _as_printed("long_drain.md")


def _as_printed(name: str) -> str:
    file = FIGURES / name
    return file.read_text().strip() if file.exists() else NOT_MEASURED
