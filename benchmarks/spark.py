"""The Spark format and the lake against what they can be compared with, in the same run.

python benchmarks/spark.py [--events 1000000] [--jobs 200000] [--rounds 5] [--store sqlite redis]
                           [--only read enqueue claims lake] [--json FILE]

With --json, the rows of measures that were not taken this time stay in the file as they are.

read      the journal through the format, against Spark's own scan of the same rows in Parquet
enqueue   rows into jobs through the format, against the library's own bulk enqueue with ids
claims    a stream of claims at 10,000 a batch, into nothing
lake      the last of several runs of the lake, each of --events, against the second, because the
          first warms Spark up; only on SQLite, because all that another store would change is
          measured by `read`
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from private_servers import RedisServer

import ackline
from ackline.core import lifecycle
from ackline.queues import Queues
from ackline.spark.lake.running import Asked, Run
from ackline.spark.runtime.session import spark_session

PAYLOAD = "x" * 180
BATCH = 10_000
CHUNK = 1000
STORES = ["sqlite", "redis"]

Figures = dict[str, Any]


def took(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


@contextmanager
def store_of(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store."""
    if kind == "redis":
        with RedisServer() as server:
            yield server.url
        return
    yield f"sqlite:///{folder}/{kind}.db?durability=normal"


def durability_of(url: str) -> str:
    with ackline.open(url) as queues:
        return queues.info().durability


def live(queues: Queues, jobs: int) -> int:
    """Enqueue, claim and complete jobs; returns how many events that made."""
    queue = queues["bench"]
    queue.configure(max_journal=1_000_000_000, keep_journal=1e9)
    for start in range(0, jobs, CHUNK):
        queue.enqueue_many([PAYLOAD] * min(CHUNK, jobs - start), kind="bench")
        claimed = queue.claim_records(queue.claim_request(CHUNK, 300.0, None, "bench")).jobs
        queue.apply([lifecycle.complete(job, b"1", queue.policies.of(job)) for job in claimed])
    return 3 * jobs


def measure_read(spark: Any, url: str, folder: Path, arguments: argparse.Namespace) -> Figures:
    with ackline.open(url) as queues:
        events = live(queues, arguments.events // 3)
    parquet = f"{folder}/events"

    def through() -> Any:
        return spark.read.format("ackline").option("store", url).load("events")

    def read(frame: Any) -> float:
        return best(lambda: frame.write.format("noop").mode("overwrite").save())

    through().write.mode("overwrite").parquet(parquet)
    return {
        "measure": "events read",
        "against": "Spark's scan of them in Parquet",
        "per_second": events / read(through()),
        "against_per_second": events / read(spark.read.parquet(parquet)),
    }


def measure_enqueue(spark: Any, url: str, _folder: Path, arguments: argparse.Namespace) -> Figures:
    jobs = arguments.jobs
    rows = spark.range(0, jobs, 1, 4).selectExpr(
        "concat('spark-', id) as id", f"'\"{PAYLOAD}\"' as payload"
    )
    rows = rows.cache()
    rows.count()

    def write(frame: Any, queue: str) -> None:
        writer = frame.write.format("ackline").option("store", url).option("table", "jobs")
        writer.option("queue", queue).mode("append").save()

    # Spark's Python workers start once in the life of an executor.
    write(rows.limit(1000).repartition(4), "warm")
    ackline_seconds = took(lambda: write(rows, "spark"))
    rows.unpersist()
    with ackline.open(url) as queues:

        def enqueue() -> None:
            for start in range(0, jobs, CHUNK):
                ids = range(start, min(start + CHUNK, jobs))
                queues["library"].enqueue_many(
                    [ackline.NewJob(PAYLOAD, id=f"library-{number}") for number in ids]
                )

        library = took(enqueue)
    return {
        "measure": "rows enqueued",
        "against": "the library, in bulk with ids",
        "per_second": jobs / ackline_seconds,
        "against_per_second": jobs / library,
    }


def measure_claims(spark: Any, url: str, folder: Path, arguments: argparse.Namespace) -> Figures:
    with ackline.open(url) as queues:
        for start in range(0, arguments.jobs, CHUNK):
            queues["claims"].enqueue_many([PAYLOAD] * min(CHUNK, arguments.jobs - start))
    options = {"store": url, "queue": "claims", "streamId": "bench", "wait": "0"}
    options |= {"maxJobsPerTrigger": str(BATCH), "partitions": "2"}
    frame = spark.readStream.format("ackline").options(**options).load("jobs")
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", f"{folder}/claims")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
    print({name: _median(batches, name) for name in batches[0]["durationMs"]})
    # The first batch starts Spark's Python workers, which is done once.
    seconds = sum(batch["durationMs"]["triggerExecution"] for batch in batches[1:]) / 1000
    return {
        "measure": f"jobs claimed and completed, {BATCH:,} a batch",
        "per_second": sum(batch["numInputRows"] for batch in batches[1:]) / seconds,
    }


def _median(batches: list[Any], name: str) -> float:
    return float(statistics.median(batch["durationMs"].get(name, 0) for batch in batches))


def measure_lake(spark: Any, url: str, folder: Path, arguments: argparse.Namespace) -> Figures:
    """Rounds of the same number of events: the speed of the last, against the second."""
    rates = []
    with ackline.open(url) as queues:
        options = Asked(url=url, tenant="default", lake=f"{folder}/lake")
        for _ in range(arguments.rounds):
            live(queues, arguments.events // 3)
            result = Run(spark, queues, options).to_now()
            rates.append(result.events / result.seconds)
            print(f"{result.events:,} events in {result.seconds:.1f} s", flush=True)
        idle = Run(spark, queues, options).to_now().seconds
    return {
        "measure": f"events into the lake, {arguments.rounds} times {arguments.events:,}: the last",
        "against": "the second",
        "per_second": rates[-1],
        "against_per_second": rates[1],
        "rounds_per_second": rates,
        "seconds_without_events": idle,
    }


def best(act: Callable[[], Any], times: int = 3) -> float:
    return min(took(act) for _ in range(times))


MEASURES: dict[str, Callable[..., Figures]] = {
    "read": measure_read,
    "enqueue": measure_enqueue,
    "claims": measure_claims,
    "lake": measure_lake,
}


def is_measured(name: str, kind: str) -> bool:
    return name != "lake" or kind == "sqlite"


def measure(spark: Any, name: str, kind: str, arguments: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory() as folder, store_of(kind, Path(folder)) as url:
        figures: Figures = {
            "name": f"{name} {kind}",
            "store": kind,
            "durability": durability_of(url),
        }
        figures |= MEASURES[name](spark, url, Path(folder), arguments)
    if "against_per_second" in figures:
        figures["ratio"] = figures["per_second"] / figures["against_per_second"]
    print(figures, flush=True)
    return figures


def save(file: Path, figures: list[Figures]) -> None:
    """Write the figures to a file, and keep those of other measures in it."""
    before = json.loads(file.read_text())["figures"] if file.exists() else []
    by_name = {row["name"]: row for row in [*before, *figures]}
    order = [f"{name} {kind}" for name in MEASURES for kind in STORES if is_measured(name, kind)]
    rows = [by_name[name] for name in order if name in by_name]
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    about = f"{machine}, Spark {pyspark.__version__}, local[2]"
    file.write_text(json.dumps({"machine": about, "figures": rows}, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", nargs="*", default=STORES, choices=STORES)
    parser.add_argument("--only", nargs="*", default=[*MEASURES], choices=[*MEASURES])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.rounds < 3:
        parser.error("--rounds is at least 3: the last is compared with the second")
    spark = spark_session("local[2]")
    planned = [
        (name, kind)
        for kind in arguments.store
        for name in arguments.only
        if is_measured(name, kind)
    ]
    figures = [measure(spark, name, kind, arguments) for name, kind in planned]
    spark.stop()
    if arguments.json is not None:
        save(arguments.json, figures)


if __name__ == "__main__":
    main()
