"""The tables: Markdown, aligned, so that they read well on a terminal, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

RATES = {
    "one_per_second": "one call each",
    "bulk_per_second": "in bulk",
    "concurrent_per_second": "100 callers",
    "drain_per_second": "**drain**",
}

LATENCIES = {
    "start_p50_ms": "to start, p50",
    "start_p99_ms": "p99",
    "round_trip_p50_ms": "round trip, p50",
    "round_trip_p99_ms": "p99",
}

NO_BULK = "\\* no bulk call: one by one, or 100 calls in flight where its calls are asynchronous."


BUSY = 0.5
"""Above this load of the machine, its figures are worth little."""


def text(measured: dict[str, Any]) -> str:
    entries = measured["entries"]
    return "\n\n".join(
        [
            heading(measured),
            figures("jobs/s: enqueue", entries, RATES, 0),
            NO_BULK,
            *ratios(entries),
            figures("ms from enqueue", entries, LATENCIES, 2),
            figures("per job", entries, measured["costs"], 1),
            about(entries),
            *errors(measured),
        ]
    )


def heading(measured: dict[str, Any]) -> str:
    return (
        f"{measured['server']}, {measured['durability']}. {measured['machine']}. "
        f"{measured['jobs']:,} noop jobs of 100 bytes of JSON (fewer for slower peers), "
        f"one worker process, each job acknowledged; "
        f"medians; rounds: {measured['rounds']}.{disturbance(measured)}"
    )


def disturbance(measured: dict[str, Any]) -> str:
    load = measured["load_before"]
    busy = f" **The machine was busy with other things before: load {load:.1f}.**"
    return busy if load > BUSY else ""


def figures(
    corner: str, entries: Sequence[dict[str, Any]], columns: dict[str, str], digits: int
) -> str:
    rows = [
        [name(entry), *(cell(entry, column, digits) for column in columns)] for entry in entries
    ]
    return table([corner, *columns.values()], rows, right=len(columns))


def name(entry: dict[str, Any]) -> str:
    return ", ".join(filter(None, [entry["name"], entry["variant"]]))


def cell(entry: dict[str, Any], column: str, digits: int) -> str:
    if column not in entry["figures"]:
        return ""
    mark = "\\*" if column == "bulk_per_second" and not entry["bulk"] else ""
    return f"{entry['figures'][column]:,.{digits}f}{mark}"


def ratios(entries: Sequence[dict[str, Any]]) -> list[str]:
    """How Ackline compares with the best of each language."""
    rates = {name(entry): drain for entry in entries if (drain := drained(entry))}
    ours = rates.get("Ackline")
    if ours is None:
        return []
    comparisons = []
    for language in ("Python", "Node.js"):
        peers = [name(entry) for entry in entries if is_peer(entry, language)]
        if best := max(filter(rates.get, peers), key=rates.__getitem__, default=None):
            comparisons.append(f"{ours / rates[best]:.1f} times {best}, the best of {language}")
    return [f"Ackline drains {' and '.join(comparisons)}."] if comparisons else []


def is_peer(entry: dict[str, Any], language: str) -> bool:
    return entry["name"] != "Ackline" and entry["versions"][-1].startswith(language)


def drained(entry: dict[str, Any]) -> float | None:
    rate: float | None = entry["figures"].get("drain_per_second")
    return rate


def about(entries: Sequence[dict[str, Any]]) -> str:
    rows = [
        [name(entry), entry["delivery"], entry["fenced"], entry["settings"], versions(entry)]
        for entry in entries
        if not entry["variant"]
    ]
    return table(["", "delivery", "acknowledgement fenced", "set up", "versions"], rows)


def versions(entry: dict[str, Any]) -> str:
    return ", ".join(entry["versions"])


def errors(measured: dict[str, Any]) -> list[str]:
    entries = measured["entries"]
    failed = [f"- {name(entry)}: {entry['error']}" for entry in entries if "error" in entry]
    failed += [f"- {entry}: {reason}" for entry, reason in measured["left_out"].items()]
    return ["Not measured to the end:\n" + "\n".join(failed)] if failed else []


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> str:
    """`right` says how many of the last columns hold numbers."""
    columns = zip(head, *rows, strict=True)
    numeric = [at >= len(head) - right for at in range(len(head))]
    padded = [pad(column, is_numeric) for column, is_numeric in zip(columns, numeric, strict=True)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in zip(*padded, strict=True))


def pad(column: Sequence[str], numeric: bool) -> list[str]:
    width = max(3, *map(len, column))
    head, *cells = (text.rjust(width) if numeric else text.ljust(width) for text in column)
    rule = "-" * (width - 1) + (":" if numeric else "-")
    return [head, rule, *cells]
