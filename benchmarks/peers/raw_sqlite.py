"""SQLite itself, as the limit of a queue that keeps jobs in it: one transaction for each job.

The transaction inserts two rows, without which no such queue can do: the job, found by its id, and
its place in line, found in order. It writes no state, journal or counts, and serves nobody. The
file has the settings that Ackline gives its own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import msgspec
from shared import PAYLOAD

from ackline.core.ids import new_id
from ackline.stores.sqlite.io.connection import Durability, connect

TABLES = """
CREATE TABLE job (num INTEGER PRIMARY KEY, id TEXT NOT NULL, payload BLOB NOT NULL);
CREATE UNIQUE INDEX job_id ON job (id);
CREATE TABLE place (job INTEGER PRIMARY KEY, at REAL NOT NULL);
CREATE INDEX place_line ON place (at);
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--synchronous", choices=["full", "normal"], default="full")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(Path(folder), arguments.jobs, arguments.synchronous)))


def run(folder: Path, jobs: int, synchronous: Durability) -> dict[str, float]:
    connection = connect(str(folder / "raw.db"), synchronous, create=True)
    connection.execute(TABLES).fetchall()

    began = time.perf_counter()
    for num in range(jobs):
        payload = msgspec.json.encode(PAYLOAD)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO job VALUES (?, ?, ?)", (num, new_id(), payload))
        connection.execute("INSERT INTO place VALUES (?, ?)", (num, time.time()))
        connection.execute("COMMIT")
    took = time.perf_counter() - began
    [(written_with,)] = connection.execute("PRAGMA synchronous")
    return {"synchronous": written_with, "enqueue_one": jobs / took}


if __name__ == "__main__":
    main()
