"""Handlers on Spark's executors: each task is a worker like any other.

Its jobs are held by leases and heartbeats. If an executor is lost, its leases lapse and the jobs
are delivered again, and Spark starts its task anew elsewhere. Spark ends tasks without a word, so
a fleet is stopped by a flag in the store: then each worker ends what it runs.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow
from pyspark.sql import SparkSession

from ackline.errors import ConfigError, StoreError
from ackline.ids import new_id
from ackline.job import LIVE
from ackline.limits import OWN_KEYS, require_name
from ackline.queue import Job, Queue
from ackline.spark.place import StoreFile, files_of, require_one_machine
from ackline.stores.base import KeyWrite
from ackline.worker import Hooks, Worker
from ackline.worker.patience import keep_trying

logger = logging.getLogger("ackline")

PAUSE = 0.5
"""Seconds between looks at the flag."""

SCHEMA = "worker string, ended long, failed long"

_ARROW = pyarrow.schema(
    [("worker", pyarrow.string()), ("ended", pyarrow.int64()), ("failed", pyarrow.int64())]
)


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What the workers of a fleet have in common."""

    name: str
    executors: int
    concurrency: int = 16
    grace: float = 30.0
    until_empty: bool = False
    """Whether workers leave when nothing waits or runs any more."""
    environment: Mapping[str, str] = {}
    """Environment variables that the handlers' module reads."""
    shared_files: bool = False
    """Whether all machines see the same files, so that SQLite may do."""
    files: tuple[StoreFile, ...] = ()
    """The stores that are files; `run_fleet` fills it in."""
    asked_before: tuple[bytes, ...] = ()
    """What earlier fleets of this name were asked to stop by; `run_fleet` fills it in."""

    def __post_init__(self) -> None:
        require_name("fleet", self.name)
        if self.executors < 1:
            raise ConfigError(f"a fleet has at least one executor, not {self.executors}")


class Served(msgspec.Struct, frozen=True):
    """What one worker did."""

    worker: str
    ended: int
    """Handlers that returned."""
    failed: int
    """Handlers that raised."""


class StopFlag:
    """Keys in the store that tell a fleet to stop: one for each queue, under the fleet's name.

    So fleets of other queues are left alone, even where both have the same name. Each time it is
    hoisted it says something new, and stays: a fleet that began since knows that it was not meant,
    and takes the flag from no one who was.
    """

    def __init__(
        self, queues: Sequence[Queue[Any, Any]], fleet: str, before: Sequence[bytes] = ()
    ) -> None:
        self._before = frozenset(before)
        self._keys = [
            (queue.store, queue.key.tenant, (OWN_KEYS, "spark", "fleet", fleet, queue.key.name))
            for queue in queues
        ]

    def hoist(self) -> None:
        """Ask the fleet to stop."""
        for store, tenant, key in self._keys:
            store.write_keys(tenant, [KeyWrite(key=key, value=new_id().encode())])

    def says(self) -> tuple[bytes, ...]:
        """What it says now."""
        return tuple(
            entry.value
            for store, tenant, key in self._keys
            for entry in store.read_keys(tenant, key, 1)
            if entry.key == key
        )

    @property
    def raised(self) -> bool:
        """Whether it was asked to stop; if the store cannot be reached, it asks again later."""
        try:
            return not self._before.issuperset(self.says())
        except StoreError as error:
            logger.warning("cannot ask the store whether to stop: %s", error)
            return False


def run_fleet(
    spark: SparkSession, load: Callable[[], Sequence[Queue[Any, Any]]], fleet: Fleet
) -> list[Served]:
    """Work until the flag is raised; `load` makes the queues and handlers, on each executor."""
    queues = load()
    _require_shared(queues)
    files = _files_for(spark, queues, fleet.shared_files)
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


def serve(
    load: Callable[[], Sequence[Queue[Any, Any]]],
    fleet: Fleet,
    batches: Iterator[pyarrow.RecordBatch],
) -> Iterator[pyarrow.RecordBatch]:
    """One task: a worker for each seat that it was given, which is one."""
    for batch in batches:
        for _ in range(batch.num_rows):
            served = work(load, fleet)
            yield pyarrow.RecordBatch.from_pylist([msgspec.structs.asdict(served)], _ARROW)


def work(load: Callable[[], Sequence[Queue[Any, Any]]], fleet: Fleet) -> Served:
    """Be a worker until the flag is raised."""
    os.environ.update(fleet.environment)
    for file in fleet.files:
        file.require_here()
    queues = keep_trying(load, threading.Event())
    assert queues is not None
    _require_same_files(queues, fleet.files)
    counts = {"ended": 0, "failed": 0}
    lock = threading.Lock()

    def count(_job: Job[Any], execution: Any) -> None:
        with lock:
            counts["ended" if execution.error is None else "failed"] += 1

    worker = Worker(
        *queues,
        concurrency=fleet.concurrency,
        grace=fleet.grace,
        id=f"spark {fleet.name} {new_id()[-12:]}",
        hooks=Hooks(after=[count]),
    )
    keep_trying(worker.start, threading.Event())
    try:
        flag = StopFlag(queues, fleet.name, fleet.asked_before)
        _wait(queues, flag, fleet.until_empty)
    finally:
        worker.stop()
    return Served(worker.id, **counts)


def _require_same_files(queues: Sequence[Queue[Any, Any]], files: Sequence[StoreFile]) -> None:
    """A relative path, or a variable that only the driver has, would lead to an empty store."""
    for path in files_of(queues):
        if path not in [file.path for file in files]:
            raise ConfigError(
                f"{socket.gethostname()} has opened {path}, which is not the store of the fleet: "
                "let the handlers' module name it by a URL that is the same on all machines"
            )


def _wait(queues: Sequence[Queue[Any, Any]], flag: StopFlag, until_empty: bool) -> None:
    pause = threading.Event()
    while not flag.raised and not (until_empty and is_empty(queues)):
        pause.wait(PAUSE)


def is_empty(queues: Sequence[Queue[Any, Any]]) -> bool:
    """Whether nothing waits or runs; what is scheduled or failing waits, too."""
    try:
        return not any(queue.counts()[state] for queue in queues for state in LIVE)
    except StoreError:
        return False
