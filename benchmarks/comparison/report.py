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
    queues = measured["queues"]
    return "\n\n".join(
        [
            heading(measured),
            figures("jobs/s: enqueue", queues, RATES, 0),
            NO_BULK,
            *ratios(queues),
            figures("ms from enqueue", queues, LATENCIES, 2),
            figures("per job", queues, measured["costs"], 1),
            about(queues),
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
    corner: str, queues: Sequence[dict[str, Any]], columns: dict[str, str], digits: int
) -> str:
    rows = [[name(queue), *(cell(queue, column, digits) for column in columns)] for queue in queues]
    return table([corner, *columns.values()], rows, right=len(columns))


def name(queue: dict[str, Any]) -> str:
    return ", ".join(filter(None, [queue["name"], queue["variant"]]))


def cell(queue: dict[str, Any], column: str, digits: int) -> str:
    if column not in queue["figures"]:
        return ""
    mark = "\\*" if column == "bulk_per_second" and not queue["bulk"] else ""
    return f"{queue['figures'][column]:,.{digits}f}{mark}"


def ratios(queues: Sequence[dict[str, Any]]) -> list[str]:
    """How Ackline compares with the best of each language."""
    rates = {name(queue): drain for queue in queues if (drain := drained(queue))}
    ackline = rates.get("Ackline")
    if ackline is None:
        return []
    comparisons = []
    for language in ("Python", "Node.js"):
        peers = [name(queue) for queue in queues if is_peer(queue, language)]
        if best := max(filter(rates.get, peers), key=rates.__getitem__, default=None):
            comparisons.append(f"{ackline / rates[best]:.1f} times {best}, the best of {language}")
    return [f"Ackline drains {' and '.join(comparisons)}."] if comparisons else []


def is_peer(queue: dict[str, Any], language: str) -> bool:
    runtime: str = queue["versions"][-1]
    return queue["name"] != "Ackline" and runtime.startswith(language)


def drained(queue: dict[str, Any]) -> float | None:
    rate: float | None = queue["figures"].get("drain_per_second")
    return rate


def about(queues: Sequence[dict[str, Any]]) -> str:
    rows = [
        [name(queue), queue["delivery"], queue["fenced"], queue["settings"], versions(queue)]
        for queue in queues
        if not queue["variant"]
    ]
    return table(["", "delivery", "acknowledgement fenced", "set up", "versions"], rows)


def versions(queue: dict[str, Any]) -> str:
    return ", ".join(queue["versions"])


def errors(measured: dict[str, Any]) -> list[str]:
    queues = measured["queues"]
    failed = [f"- {name(queue)}: {queue['error']}" for queue in queues if "error" in queue]
    failed += [f"- {queue}: {reason}" for queue, reason in measured["left_out"].items()]
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
