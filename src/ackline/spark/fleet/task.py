"""What one of Spark's tasks does for a fleet: it is a worker, until the flag is raised."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import msgspec
import pyarrow

from ackline.core.errors import ConfigError
from ackline.core.ids import new_id
from ackline.queue import Job, Queue
from ackline.spark.fleet.fleet import Fleet, Load, Served
from ackline.spark.fleet.remaining import Looks
from ackline.spark.fleet.stop_flag import StopFlag
from ackline.spark.store.address import StoreFile, store_files
from ackline.spark.worker_names import fleet_worker
from ackline.worker import Execution, Hooks, Worker
from ackline.worker.startup_retry import retry_until_available

PAUSE = 0.5
"""Seconds between looks at the flag."""

SCHEMA = "worker string, ended long, failed long"

_ARROW = pyarrow.schema(
    [("worker", pyarrow.string()), ("ended", pyarrow.int64()), ("failed", pyarrow.int64())]
)


def serve(
    load: Load,
    fleet: Fleet,
    batches: Iterator[pyarrow.RecordBatch],
) -> Iterator[pyarrow.RecordBatch]:
    """One task: a worker for each seat that it was given, which is one."""
    for batch in batches:
        for _ in range(batch.num_rows):
            served = work(load, fleet)
            yield pyarrow.RecordBatch.from_pylist([msgspec.structs.asdict(served)], _ARROW)


def work(load: Load, fleet: Fleet) -> Served:
    """Be a worker until the flag is raised."""
    os.environ.update(fleet.environment)
    queues = _reach(load, fleet.files)
    tally = Tally()
    worker = Worker(
        *queues,
        concurrency=fleet.concurrency,
        grace=fleet.grace,
        id=fleet_worker(fleet.name, new_id()[-12:]),
        hooks=Hooks(after=[tally.count]),
    )
    flag = StopFlag(queues, fleet.name, fleet.asked_before or ())
    # The flag can be read as soon as the store is back: it is checked before each start.
    if retry_until_available(lambda: _start(worker, flag), threading.Event()):
        try:
            _wait(worker, flag, fleet.until_empty)
        finally:
            worker.stop()
        if worker.error is not None and not flag.raised:
            _end_process()
    return Served(worker.id, tally.ended, tally.failed)


class Tally:
    """How many handlers have returned, and how many have raised."""

    def __init__(self) -> None:
        self.ended = 0
        self.failed = 0
        self._lock = threading.Lock()

    def count(self, _job: Job[Any], execution: Execution) -> None:
        """Count a handler that has ended."""
        with self._lock:
            if execution.error is None:
                self.ended += 1
            else:
                self.failed += 1


def _reach(load: Load, files: Sequence[StoreFile]) -> Sequence[Queue[Any, Any]]:
    """The queues, as soon as their store can be used.

    Nothing but Spark ends this wait: the flag is in the store that cannot be reached.
    """
    for file in files:
        file.require_here()
    queues = retry_until_available(load, threading.Event())
    assert queues is not None
    _require_same_files(queues, files)
    return queues


def _start(worker: Worker, flag: StopFlag) -> bool:
    """Start, unless a stop was asked for."""
    if flag.raised:
        return False
    worker.start()
    return True


def _require_same_files(queues: Sequence[Queue[Any, Any]], files: Sequence[StoreFile]) -> None:
    """Refuse a file that is not one of the driver's.

    A relative path, or a variable that only the driver has, would lead to an empty store.
    """
    for path in store_files(queues):
        if path not in [file.path for file in files]:
            raise ConfigError(
                f"{socket.gethostname()} has opened {path}, which is not the store of the fleet: "
                "let the handlers' module name it by a URL that is the same on all machines"
            )


def _wait(worker: Worker, flag: StopFlag, until_empty: bool) -> None:
    pause, looks = threading.Event(), Looks(worker.queues)
    while not flag.raised and not (until_empty and looks.done):
        if worker.error is not None:
            return
        pause.wait(PAUSE)


def _end_process() -> NoReturn:
    """Have Spark start the task anew in another process: threads that hang stay in this one.

    An exception would not do, because Spark gives the same process to the next task.
    """
    logging.shutdown()
    os._exit(1)
