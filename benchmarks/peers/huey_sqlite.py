"""Huey on SQLite: enqueue and drain noop tasks, and print the figures as JSON.

Huey takes a task out of its table before running it (at most once), so a crash loses it;
there is no acknowledgement to pay for. Huey itself knows only the settings `full` and `off`
of SQLite's `synchronous`; `normal` is set on its connection.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path

from huey import SqliteHuey
from shared import PAYLOAD

TIMEOUT = 300.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--synchronous", choices=["full", "normal"], default="full")
    arguments = parser.parse_args()
    logging.getLogger("huey").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        figures = run(Path(folder), arguments.jobs, arguments.workers, arguments.synchronous)
    print(json.dumps(figures))


def run(folder: Path, jobs: int, workers: int, synchronous: str) -> dict[str, object]:
    huey = SqliteHuey(
        filename=str(folder / "huey.db"), results=False, fsync=True, journal_mode="wal"
    )
    if synchronous == "normal":
        # All threads share this connection.
        huey.storage.conn.execute("PRAGMA synchronous = normal")
    done, finished = 0, threading.Event()

    @huey.task()
    def noop(_payload: dict[str, object]) -> None:
        nonlocal done
        done += 1
        if done == jobs:
            finished.set()

    began = time.perf_counter()
    for _ in range(jobs):
        noop(PAYLOAD)
    enqueued = time.perf_counter() - began

    consumer = huey.create_consumer(
        workers=workers,
        worker_type="thread",
        periodic=False,
        initial_delay=0.001,
        max_delay=0.01,
        check_worker_health=False,
    )
    began = time.perf_counter()
    consumer.start()
    if not finished.wait(TIMEOUT):
        raise SystemExit(f"huey ran {done} of {jobs} in {TIMEOUT:g} s")
    drained = time.perf_counter() - began
    consumer.stop(graceful=True)
    return {
        "peer": f"Huey {version('huey')} on SQLite",
        "synchronous": huey.storage.conn.execute("PRAGMA synchronous").fetchone()[0],
        "delivery": "at most once",
        "workers": workers,
        "enqueue_one": jobs / enqueued,
        "drain": jobs / drained,
    }


if __name__ == "__main__":
    main()
