"""Tasks against the queue below them, in turns: the same jobs with the same types.

Rates are jobs per second of processor time of this process.

.venv/bin/python benchmarks/tasks.py
.venv/bin/python benchmarks/tasks.py --store sqlite --store redis --jobs 20000 --rounds 9
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from private_servers import PostgresServer, RedisServer

import ackline

MEASURES = ("enqueue, one call", "enqueue, bulk", "drain, sync", "drain, async")


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    to: str
    template: str
    number: int


Figures = dict[str, float]


@contextmanager
def empty_store(kind: str) -> Iterator[str]:
    if kind == "redis":
        with RedisServer(persistence="everysec") as server:
            yield server.url
    elif kind == "postgres":
        with PostgresServer(fsync=True) as server:
            yield server.url
    elif kind == "memory":
        yield "memory://"
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/jobs.db"


def measure_queue(url: str, jobs: int, singles: int) -> Figures:
    with ackline.open(url) as queues:
        sync, asynchronous = queues["sync"], queues["async"]

        @sync.handler("work")
        def work(job: ackline.Job[Arguments]) -> int:
            return job.payload.number

        @asynchronous.handler("work")
        async def work_async(job: ackline.Job[Arguments]) -> int:
            return job.payload.number

        def one(number: int) -> object:
            return sync.enqueue(Arguments("ann@example.com", "plain", number), kind="work")

        def many(queue: ackline.Queue[Any, Any]) -> object:
            payloads = [Arguments("ann@example.com", "plain", number) for number in range(jobs)]
            return queue.enqueue_many(payloads, kind="work")

        return _measure(
            [sync, asynchronous], one, lambda: many(sync), lambda: many(asynchronous), jobs, singles
        )


def measure_tasks(url: str, jobs: int, singles: int) -> Figures:
    app = ackline.App(url)

    @app.task(queue="sync")
    def work(to: str, template: str, number: int) -> int:
        return number if to and template else 0

    @app.task(queue="async")
    async def work_async(to: str, template: str, number: int) -> int:
        return number if to and template else 0

    def one(number: int) -> object:
        return work.enqueue(to="ann@example.com", template="plain", number=number)

    def calls() -> list[dict[str, Any]]:
        return [
            {"to": "ann@example.com", "template": "plain", "number": number}
            for number in range(jobs)
        ]

    with app.open():
        return _measure(
            [app.queues["sync"], app.queues["async"]],
            one,
            lambda: work.enqueue_many(calls()),
            lambda: work_async.enqueue_many(calls()),
            jobs,
            singles,
        )


def _measure(
    queues: list[ackline.Queue[Any, Any]],
    one: Callable[[int], object],
    many: Callable[[], object],
    many_async: Callable[[], object],
    jobs: int,
    singles: int,
) -> Figures:
    """Seconds for each job."""
    figures = {
        MEASURES[0]: _time(lambda: [one(number) for number in range(singles)]) / singles,
        MEASURES[1]: _time(many) / jobs,
    }
    many_async()
    for name, queue in zip(MEASURES[2:], queues, strict=True):
        figures[name] = _time(partial(_drain, queue)) / jobs
    return figures


def _drain(queue: ackline.Queue[Any, Any]) -> None:
    worker = ackline.Worker(queue, concurrency=64)
    worker.start()
    while queue.counts()[ackline.State.QUEUED] + queue.counts()[ackline.State.PROCESSING]:
        time.sleep(0.005)
    worker.stop()


def _time(act: Callable[[], object]) -> float:
    """Processor time of this process, which other programs on the machine disturb least."""
    gc.collect()
    started = time.process_time()
    act()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--store", action="append", choices=("memory", "sqlite", "redis", "postgres")
    )
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--singles", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(
        f"{'store':9} {'measure':18} {'queue, jobs/s':>14} {'task, jobs/s':>14} {'ratio':>6}  range"
    )
    for kind in options.store or ("sqlite",):
        rounds = []
        for number in range(options.rounds):
            ways = [measure_queue, measure_tasks]
            figures = {}
            for way in ways if number % 2 else reversed(ways):
                with empty_store(kind) as url:
                    figures[way] = way(url, options.jobs, options.singles)
            rounds.append((figures[measure_queue], figures[measure_tasks]))
        for name in MEASURES:
            ratios = sorted(queue[name] / task[name] for queue, task in rounds)
            print(
                f"{kind:9} {name:18}"
                f" {1 / statistics.median(queue[name] for queue, _ in rounds):14,.0f}"
                f" {1 / statistics.median(task[name] for _, task in rounds):14,.0f}"
                f" {statistics.median(ratios):6.2f}  {ratios[0]:.2f} to {ratios[-1]:.2f}"
            )


if __name__ == "__main__":
    main()
