"""Ackline and Huey on SQLite, and SQLite itself, in one run, in turns: medians of several rounds.

.venv/bin/python benchmarks/against_huey.py            # needs: tools/environment bench
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from field.program import call

HERE = Path(__file__).parent

SINGLES = 2_000
"""Jobs that are enqueued by one call each. Huey's are as many as it is to drain."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    rounds = [one_round(arguments.jobs) for _ in range(arguments.rounds)]
    figures = {
        name: {key: statistics.median(r[name][key] for r in rounds) for key in rounds[0][name]}
        for name in rounds[0]
    }
    print(table(figures))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def one_round(jobs: int) -> dict[str, dict[str, float]]:
    return {
        "SQLite itself, full": raw(fsync=True),
        "Ackline, durability=full": ackline(jobs, "full"),
        "Huey, fsync": huey(jobs, workers=1, fsync=True),
        "SQLite itself, normal": raw(fsync=False),
        "Ackline, durability=normal": ackline(jobs, "normal"),
        "Huey, no fsync": huey(jobs, workers=1, fsync=False),
        "Huey, no fsync, 4 threads": huey(jobs, workers=4, fsync=False),
    }


def raw(*, fsync: bool) -> dict[str, float]:
    program = [sys.executable, str(HERE / "peers" / "raw_sqlite.py"), "--jobs", str(SINGLES)]
    return {"enqueue_one": call([*program, *(["--fsync"] if fsync else [])])["enqueue_one"]}


def ackline(jobs: int, durability: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        figures = call([
            sys.executable, "-m", "ackline", "--store", f"sqlite:///{folder}/jobs.db?durability={durability}",
            "--json", "bench", "--jobs", str(jobs), "--singles", str(SINGLES),
            "--only", "enqueue one", "--only", "enqueue bulk", "--only", "drain sync",
        ])  # fmt: skip
    rates = {figure["name"]: figure["per_second"] for figure in figures["figures"]}
    return {
        "enqueue_one": rates["enqueue, one call each"],
        "enqueue_bulk": rates["enqueue, bulk"],
        "drain": rates["drain, sync handler"],
    }


def huey(jobs: int, workers: int, fsync: bool) -> dict[str, float]:
    program = [sys.executable, str(HERE / "peers" / "huey_sqlite.py"), "--jobs", str(jobs)]
    figures = call([*program, "--workers", str(workers), *(["--fsync"] if fsync else [])])
    # Huey has no bulk enqueue; its single calls are what a bulk load would use.
    single = figures["enqueue_one"]
    return {"enqueue_one": single, "enqueue_bulk": single, "drain": figures["drain"]}


def table(figures: dict[str, dict[str, float]]) -> str:
    lines = [
        "| jobs/s, one worker process | enqueue, one call | enqueue, bulk | drain |",
        "|---|---:|---:|---:|",
    ]
    for name, row in figures.items():
        keys = ("enqueue_one", "enqueue_bulk", "drain")
        cells = " | ".join(f"{row[key]:,.0f}" if key in row else "" for key in keys)
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
