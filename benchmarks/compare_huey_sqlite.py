"""Compare Ackline with Huey on SQLite, and with SQLite itself: medians of several rounds.

.venv/bin/python benchmarks/compare_huey_sqlite.py     # needs: tools/environment bench
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
from pathlib import Path

from comparison.program import call

from ackline.stores.sqlite.io.connection import Durability, connect

HERE = Path(__file__).parent

SYNCHRONOUS = {0: "off", 1: "normal", 2: "full"}
"""The values of SQLite's pragma `synchronous`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    rounds = [one_round(arguments.jobs) for _ in range(arguments.rounds)]
    figures = {
        name: {
            key: statistics.median(r[name][key] for r in rounds if key in r[name])
            for key in rounds[0][name]
        }
        for name in rounds[0]
    }
    print(table(figures))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def one_round(jobs: int) -> dict[str, dict[str, float]]:
    return {
        "SQLite itself, full": raw(jobs, "full"),
        "Ackline, durability=full": ackline(jobs, "full"),
        "Huey, full": huey(jobs, "full"),
        "SQLite itself, normal": raw(jobs, "normal"),
        "Ackline, durability=normal": ackline(jobs, "normal"),
        "Huey, normal": huey(jobs, "normal"),
        "Huey, normal, 4 threads": huey(jobs, "normal", workers=4),
    }


def raw(jobs: int, synchronous: str) -> dict[str, float]:
    return peer("raw_sqlite.py", jobs, synchronous)


def ackline(jobs: int, durability: Durability) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        figures = call([
            sys.executable, "-m", "ackline", "--store", f"sqlite:///{folder}/jobs.db?durability={durability}",
            "--json", "bench", "--jobs", str(jobs), "--singles", str(jobs),
            "--only", "enqueue one", "--only", "enqueue bulk", "--only", "drain sync",
        ])  # fmt: skip
        with contextlib.closing(connect(f"{folder}/jobs.db", durability)) as connection:
            [(synchronous,)] = connection.execute("PRAGMA synchronous")
    rates = {each["name"]: each["per_second"] for each in figures["measurements"]}
    return {
        "synchronous": synchronous,
        "enqueue_one": rates["enqueue, one call each"],
        "enqueue_bulk": rates["enqueue, bulk"],
        "drain": rates["drain, sync handler"],
    }


def huey(jobs: int, synchronous: str, workers: int = 1) -> dict[str, float]:
    figures = peer("huey_sqlite.py", jobs, synchronous, "--workers", str(workers))
    # Huey has no bulk enqueue; its single calls are what a bulk load would use.
    return {**figures, "enqueue_bulk": figures["enqueue_one"]}


def peer(program: str, jobs: int, synchronous: str, *options: str) -> dict[str, float]:
    """The rates that a program prints, and the `synchronous` with which its file was written."""
    path = str(HERE / "peers" / program)
    figures = call([
        sys.executable, path, "--jobs", str(jobs), "--synchronous", synchronous, *options
    ])  # fmt: skip
    return {key: figures[key] for key in ("synchronous", "enqueue_one", "drain") if key in figures}


def table(figures: dict[str, dict[str, float]]) -> str:
    lines = [
        "| jobs/s, one worker process | synchronous | enqueue, one call | enqueue, bulk | drain |",
        "|---|---|---:|---:|---:|",
    ]
    for name, row in figures.items():
        keys = ("enqueue_one", "enqueue_bulk", "drain")
        cells = " | ".join(f"{row[key]:,.0f}" if key in row else "" for key in keys)
        lines.append(f"| {name} | {SYNCHRONOUS[int(row['synchronous'])]} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
