"""Tables of what was measured, from the files that the measuring programs wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.reference_pages.markdown import table

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"

NOT_MEASURED = "*Not measured for this release yet.*"


def benchmark() -> str:
    """The figures that benchmarks/against_huey.py --json and ackline bench --json wrote."""
    peers, own = FIGURES / "against_huey.json", FIGURES / "bench.json"
    parts = []
    if peers.exists():
        parts.append(_against_huey(json.loads(peers.read_text())))
    if own.exists():
        parts.append(_bench(json.loads(own.read_text())))
    return "\n\n".join(parts) or NOT_MEASURED


def _against_huey(measured: dict[str, dict[str, float]]) -> str:
    rows = [
        (name, *(f"{figures[key]:,.0f}" for key in ("enqueue_one", "enqueue_bulk", "drain")))
        for name, figures in measured.items()
    ]
    head = ("jobs/s, one worker process", "enqueue, one call", "enqueue, bulk", "drain")
    return table(head, rows, right=3)


def _bench(measured: dict[str, Any]) -> str:
    rows = [
        (
            figure["name"],
            _number(figure.get("per_second"), 0),
            _number(figure.get("p50_ms"), 2),
            _number(figure.get("p99_ms"), 2),
        )
        for figure in measured["figures"]
    ]
    figures = table(("measure", "jobs/s", "p50 ms", "p99 ms"), rows, right=3)
    about = f"{measured['machine']}, Python {measured['python']}"
    return f"{figures}\n\nMeasured on {about}, durability {measured['durability']}."


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def recovery() -> str:
    """The table that `python -m ackline.testing.faults.recovery` printed."""
    return _as_printed("recovery.md")


def postgres_field() -> str:
    """The tables that `benchmarks/postgres_field.py --markdown` wrote."""
    return _as_printed("postgres_field.md")


def held_snapshot() -> str:
    """What `benchmarks/postgres_field.py --held-snapshot --markdown` wrote."""
    return _as_printed("held_snapshot.md")


def long_run() -> str:
    """What `benchmarks/postgres_field.py --laps --markdown` wrote."""
    return _as_printed("long_run.md")


def _as_printed(name: str) -> str:
    file = FIGURES / name
    return file.read_text().strip() if file.exists() else NOT_MEASURED
