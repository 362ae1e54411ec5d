"""Starting a fleet, and waiting for its end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from ackline.errors import ConfigError
from ackline.queue import Queue
from ackline.spark.fleet.fleet import Fleet, Served
from ackline.spark.fleet.stop_flag import StopFlag
from ackline.spark.fleet.task import SCHEMA, serve
from ackline.spark.place import StoreFile, files_of, require_one_machine


def run_fleet(
    spark: SparkSession, load: Callable[[], Sequence[Queue[Any, Any]]], fleet: Fleet
) -> list[Served]:
    """Work until the flag is raised; `load` makes the queues and handlers, on each executor."""
    queues = load()
    _require_shared(queues)
    files = _files_for(spark, queues, fleet.shared_files)
    if (asked_before := fleet.asked_before) is None:
        asked_before = StopFlag(queues, fleet.name).says()
    fleet = msgspec.structs.replace(fleet, files=files, asked_before=asked_before)
    seats = spark.range(0, fleet.executors, 1, fleet.executors)
    told = seats.mapInArrow(lambda batches: serve(load, fleet, batches), SCHEMA)
    return [Served(**row) for row in told.toArrow().to_pylist()]


def _require_shared(queues: Sequence[Queue[Any, Any]]) -> None:
    for queue in queues:
        if not queue.store.capabilities.shared:
            raise ConfigError(
                f"queue {queue.key} is in a {queue.store.capabilities.name} store, which each "
                "executor would have for itself: use redis:// or postgresql://"
            )


def _files_for(
    spark: SparkSession, queues: Sequence[Queue[Any, Any]], shared: bool
) -> tuple[StoreFile, ...]:
    """The stores that are files, each one that Spark's workers reach as far as is known here."""
    files = files_of(queues)
    # With Spark Connect, only a worker knows on which machine it is: it looks for itself.
    context = getattr(spark, "sparkContext", None)
    if context is not None and not shared:
        for file in files:
            require_one_machine(file, context.master, "set shared_files=True")
    host = socket.gethostname()
    return tuple(StoreFile(path=file, host=host, shared=shared) for file in files)
