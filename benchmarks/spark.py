"""The Spark format and the lake against what they can be compared with, in the same run.

python benchmarks/spark.py [--events 300000] [--jobs 200000] [--rounds 5] [--store sqlite redis]
                           [--only read enqueue claims lake] [--json FILE]

read      the journal through the format, against Spark's own scan of the same rows in Parquet
enqueue   rows into jobs through the format, against the library's own bulk enqueue
claims    a stream of claims at 10,000 a batch, into nothing
lake      seconds per event of each of several runs of the lake: flat, if only new work is done
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ackline
from ackline import lifecycle
from ackline.queues import Queues
from ackline.spark.lake.running import Asked, Run
from ackline.spark.session import spark_session
from ackline.testing.servers.redis import RedisServer

PAYLOAD = "x" * 180
BATCH = 10_000
CHUNK = 1000


def took(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


@contextmanager
def store_of(kind: str, folder: Path) -> Iterator[str]:
    """A store's URL without anything in it."""
    if kind == "redis":
        with RedisServer() as server:
            yield server.url
        return
    yield f"sqlite:///{folder}/{kind}.db?durability=normal"


def live(queues: Queues, jobs: int) -> int:
    """Jobs that are enqueued, claimed and completed; answers how many events that made."""
    queue = queues["bench"]
    queue.configure(max_journal=1_000_000_000, keep_journal=1e9)
    for start in range(0, jobs, CHUNK):
        queue.enqueue_many([PAYLOAD] * min(CHUNK, jobs - start), kind="bench")
        claimed = queue.claim_records(queue.claim_request(CHUNK, 300.0, None, "bench")).jobs
        queue.apply([lifecycle.complete(job, b"1", queue.policy(job)) for job in claimed])
    return 3 * jobs


def measure_read(spark: Any, url: str, folder: Path, events: int) -> dict[str, float]:
    with ackline.open(url) as queues:
        events = live(queues, events // 3)
    parquet = f"{folder}/events"

    def through() -> Any:
        return spark.read.format("ackline").option("store", url).load("events")

    through().write.mode("overwrite").parquet(parquet)
    ours = best(lambda: through().write.format("noop").mode("overwrite").save())
    scan = best(lambda: spark.read.parquet(parquet).write.format("noop").mode("overwrite").save())
    return {
        "events": events,
        "format_per_second": events / ours,
        "parquet_per_second": events / scan,
        "ratio": scan / ours,
    }


def measure_enqueue(spark: Any, url: str, jobs: int) -> dict[str, float]:
    rows = spark.range(0, jobs, 1, 4).selectExpr(
        "concat('spark-', id) as id", f"'\"{PAYLOAD}\"' as payload"
    )
    rows = rows.cache()
    rows.count()

    def write(some: Any, queue: str) -> None:
        writer = some.write.format("ackline").option("store", url).option("table", "jobs")
        writer.option("queue", queue).mode("append").save()

    # Spark's Python workers start once in the life of an executor.
    write(rows.limit(1000).repartition(4), "warm")
    ours = took(lambda: write(rows, "spark"))
    with ackline.open(url) as queues:
        queue = queues["library"]

        def enqueue() -> None:
            for start in range(0, jobs, CHUNK):
                queue.enqueue_many([PAYLOAD] * min(CHUNK, jobs - start))

        library = took(enqueue)
    rows.unpersist()
    return {
        "jobs": jobs,
        "format_per_second": jobs / ours,
        "library_per_second": jobs / library,
        "ratio": library / ours,
    }


def measure_claims(spark: Any, url: str, folder: Path, jobs: int) -> dict[str, float]:
    with ackline.open(url) as queues:
        for start in range(0, jobs, CHUNK):
            queues["claims"].enqueue_many([PAYLOAD] * min(CHUNK, jobs - start))
    options = {"store": url, "queue": "claims", "streamId": "bench", "wait": "0"}
    options["maxJobsPerTrigger"] = str(BATCH)

    def run() -> None:
        frame = spark.readStream.format("ackline").options(**options).load("jobs")
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", f"{folder}/claims")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        batches.extend(one["durationMs"]["triggerExecution"] for one in query.recentProgress)

    batches: list[float] = []
    seconds = took(run)
    return {
        "jobs": jobs,
        "per_second": jobs / seconds,
        "batch_seconds": statistics.median(batches) / 1000,
    }


def measure_lake(spark: Any, url: str, folder: Path, events: int, rounds: int) -> dict[str, Any]:
    """Rounds of so many events each: what the last costs, against the first."""
    costs = []
    with ackline.open(url) as queues:
        asked = Asked(url=url, tenant="default", lake=f"{folder}/lake")
        for _ in range(rounds):
            live(queues, events // 3)
            ran = Run(spark, queues, asked).to_now()
            costs.append(ran.seconds / ran.events * 1e6)
        idle = Run(spark, queues, asked).to_now().seconds
    return {
        "events_each": events,
        "microseconds_per_event": costs,
        "last_against_first": costs[-1] / costs[0],
        "seconds_without_news": idle,
    }


def best(act: Callable[[], Any], times: int = 3) -> float:
    return min(took(act) for _ in range(times))


def measure(spark: Any, name: str, kind: str, said: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place, store_of(kind, Path(place)) as url:
        folder = Path(place)
        match name:
            case "read":
                return measure_read(spark, url, folder, said.events)
            case "enqueue":
                return measure_enqueue(spark, url, said.jobs)
            case "claims":
                return measure_claims(spark, url, folder, said.jobs)
            case "lake":
                return measure_lake(spark, url, folder, said.events, said.rounds)
            case _:
                raise SystemExit(f"there is no measure {name!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", nargs="*", default=["sqlite", "redis"])
    parser.add_argument("--only", nargs="*", default=["read", "enqueue", "claims", "lake"])
    parser.add_argument("--json", type=Path)
    said = parser.parse_args()
    spark = spark_session("local[2]")
    found: dict[str, Any] = {}
    for kind in said.store:
        for name in said.only:
            found[f"{name} {kind}"] = measure(spark, name, kind, said)
            print(f"{name} {kind}: {found[f'{name} {kind}']}", flush=True)
    spark.stop()
    if said.json is not None:
        said.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
