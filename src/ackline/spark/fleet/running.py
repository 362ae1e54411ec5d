"""Starting a fleet, and waiting for its end."""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import ConfigError, StoreError
from ackline.queue import Queue
from ackline.spark.fleet.fleet import Fleet, Load, Served
from ackline.spark.fleet.remaining import has_nothing_to_do, warn_of_left_jobs
from ackline.spark.fleet.stop_flag import StopFlag
from ackline.spark.fleet.task import SCHEMA, serve
from ackline.spark.store.address import StoreFile, require_local_master, store_files
from ackline.spark.worker_names import fleet_worker

logger = logging.getLogger("ackline")

LOST = re.compile(
    r"aborted due to stage failure: .* most recent failure: Lost task "
    r".*(ExecutorLostFailure .*|Python worker exited unexpectedly)"
)
"""What Spark says when it gives a job up because one of its tasks lost its executor too often."""

RESTARTS = (1.0, 60.0)
"""Seconds before a fleet that Spark gave up is started anew: the first pause and the longest."""

LONG_LIFE = 300.0
"""A fleet that ran for this many seconds worked well: the pauses begin with the first again."""

SETTLED = 60.0
"""Seconds in which Spark has started as many workers as it can."""


def run_fleet(spark: SparkSession, load: Load, fleet: Fleet) -> list[Served]:
    """Work until the flag is raised, whatever becomes of single workers."""
    queues = load()
    require_shared(queues)
    files = _files_for(spark, queues, fleet.shared_files)
    if (asked_before := fleet.asked_before) is None:
        asked_before = StopFlag(queues, fleet.name).says()
    fleet = msgspec.structs.replace(fleet, files=files, asked_before=asked_before)
    flag = StopFlag(queues, fleet.name, asked_before)
    with _noticing_free_seats(queues[0], fleet):
        served = _despite_losses(lambda: _run_once(spark, load, fleet), flag)
    if fleet.until_empty and not flag.raised:
        warn_of_left_jobs(queues)
    return served


def _run_once(spark: SparkSession, load: Load, fleet: Fleet) -> list[Served]:
    seats = spark.range(0, fleet.executors, 1, fleet.executors)
    reports = seats.mapInArrow(lambda batches: serve(load, fleet, batches), SCHEMA)
    return [Served(**row) for row in reports.toArrow().to_pylist()]


def _despite_losses(act: Callable[[], list[Served]], flag: StopFlag) -> list[Served]:
    """Call `act` again when Spark gives up: it adds up the losses of a task for a fleet's life."""
    pauses = ExponentialDelay(*RESTARTS)
    while True:
        began = time.monotonic()
        try:
            return act()
        except Exception as error:
            lost = LOST.search(str(error))
            if lost is None or flag.raised:
                raise
            if time.monotonic() - began > LONG_LIFE:
                pauses.reset()
            pause = pauses.next()
            logger.warning(
                "Spark lost a worker too often and ended the fleet, which starts anew in %g s: %s",
                pause,
                lost[1],
            )
        time.sleep(pause)


@contextmanager
def _noticing_free_seats(queue: Queue[Any, Any], fleet: Fleet) -> Iterator[None]:
    """Warn if workers are missing: Spark starts as many as it has slots, and reports no others."""
    began = queue.store.now()
    timer = threading.Timer(SETTLED, warn_of_free_seats, [queue, fleet, began])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def warn_of_free_seats(queue: Queue[Any, Any], fleet: Fleet, began: float) -> None:
    """Warn if fewer workers than there should be have sent a heartbeat since `began`."""
    try:
        workers = [worker for worker in queue.workers() if worker.last_heartbeat_at >= began]
        leaving = fleet.until_empty and has_nothing_to_do([queue])
    except StoreError:
        return  # The workers report that, with more details.
    here = sum(worker.heartbeat.id.startswith(fleet_worker(fleet.name)) for worker in workers)
    if here < fleet.executors and not leaving:
        logger.warning(
            "only %d of %d workers of fleet %s have begun after %g s: if Spark has no slots for "
            "the others, give it more cores or executors, or the fleet fewer workers (--executors)",
            here,
            fleet.executors,
            fleet.name,
            SETTLED,
        )


def require_shared(queues: Sequence[Queue[Any, Any]]) -> None:
    """Refuse queues that each executor would have for itself."""
    if not queues:
        raise ConfigError("a fleet works on at least one queue, and there is none")
    for queue in queues:
        if not queue.store.capabilities.shared:
            raise ConfigError(
                f"queue {queue.key} is in a {queue.store.capabilities.name} store, which each "
                "executor would have for itself: use redis:// or postgresql://"
            )


def _files_for(
    spark: SparkSession, queues: Sequence[Queue[Any, Any]], shared: bool
) -> tuple[StoreFile, ...]:
    """The stores that are files; refused if Spark's workers may run on other machines."""
    files = store_files(queues)
    # With Spark Connect, only a worker knows on which machine it is: it checks for itself.
    context = getattr(spark, "sparkContext", None)
    if context is not None and not shared:
        for file in files:
            require_local_master(file, context.master, "set shared_files=True")
    host = socket.gethostname()
    return tuple(StoreFile(path=file, host=host, shared_files=shared) for file in files)
