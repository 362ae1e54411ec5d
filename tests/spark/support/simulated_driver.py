"""What Spark does with a stream, in the order it does it, with places to die at.

Kept is what Spark keeps on disk: the log of offsets, the log of commits, and a lake in which each
micro-batch has a path of its own that is overwritten. `tests/spark/test_data_source.py` compares
the order of calls with that of Spark itself.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from ackline.queues import Queues
from ackline.stores.contract import Store

POINTS = ("claimed", "logged", "planned", "read", "sunk", "committed")
"""Where a driver can die: after the claim and before the log of offsets, and so on."""


class Died(Exception):
    """The driver was killed here."""


class Checkpoint:
    """What survives a driver."""

    def __init__(self) -> None:
        self.offsets: dict[int, str] = {}
        self.commits: set[int] = set()
        self.lake: dict[int, list[dict[str, Any]]] = {}
        self.appended: list[dict[str, Any]] = []
        """What a sink has that only appends."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in sorted(self.lake) for row in self.lake[batch]]

    @property
    def ids(self) -> list[str]:
        return [row["id"] for row in self.rows]


class Driver:
    """One run of a query. A new one on the same checkpoint is a restart."""

    def __init__(
        self, reader: DataSourceStreamReader, checkpoint: Checkpoint, *, now: bool = False
    ) -> None:
        self.reader = reader
        self.checkpoint = checkpoint
        self.calls: list[str] = []
        self._die_at = ""
        self._prepared = not now

    def trigger(self, die_at: str = "") -> bool:
        """One trigger: answers whether there was something to do."""
        self._die_at = die_at
        if not self._prepared:
            self.call("prepareForTriggerAvailableNow")
            self._prepared = True
        batch = len(self.checkpoint.offsets)
        if batch and batch - 1 not in self.checkpoint.commits:
            self.run_batch(batch - 1)
            return True
        start = self._start(batch)
        end = self.call("latestOffset", start, self.reader.getDefaultReadLimit())
        self._pass("claimed")
        if end == start:
            return False
        self.checkpoint.offsets[batch] = json.dumps(end)
        self._pass("logged")
        if batch:
            self.call("commit", start)
        self.run_batch(batch)
        return True

    def run(self) -> None:
        """Until there is nothing to do."""
        while self.trigger():
            pass

    def die(self) -> None:
        """End as a killed process does: threads are gone, nothing is said to the store."""
        self.reader.stop()

    @property
    def store(self) -> Store:
        """The planner's own connection."""
        reader: Any = self.reader
        queues: Queues = reader.address.queues
        return queues.store

    def beat(self) -> None:
        """What a thread of the planner does every few seconds."""
        reader: Any = self.reader
        reader._open()._renewer.run_once()

    def _start(self, batch: int) -> Any:
        if not batch:
            return self.call("initialOffset")
        return json.loads(self.checkpoint.offsets[batch - 1])

    def run_batch(self, batch: int) -> None:
        # Of the first one Spark asks for the start once more.
        start = self._start(batch)
        end = json.loads(self.checkpoint.offsets[batch])
        parts = self.call("partitions", start, end)
        self._pass("planned")
        rows = [row for part in parts for row in self.read(part)]
        self._pass("read")
        self.checkpoint.lake[batch] = rows
        self.checkpoint.appended += rows
        self._pass("sunk")
        self.checkpoint.commits.add(batch)
        self._pass("committed")

    def read(self, part: Any) -> list[dict[str, Any]]:
        # Executors have a copy that never planned anything.
        carried = pickle.loads(pickle.dumps(part))
        batches: Any = self.reader.read(carried)
        return [row for batch in batches for row in batch.to_pylist()]

    def call(self, method: str, *arguments: Any) -> Any:
        self.calls.append(method)
        return getattr(self.reader, method)(*json.loads(json.dumps(arguments[:1])), *arguments[1:])

    def _pass(self, point: str) -> None:
        if point == self._die_at:
            raise Died(point)
