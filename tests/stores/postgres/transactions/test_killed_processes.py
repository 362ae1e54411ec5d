"""The decisive outbox test: whatever is killed, a transaction and its job are both there or not."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.conftest import OpenStore
from tests.stores.postgres.transactions.enqueue_processes import QUEUE

from ackline import Queue, Queues
from ackline.core.job import State
from ackline.stores.postgres import PostgresStore

ROOT = Path(__file__).parents[4]
TABLE = "books"
RUN_TIMEOUT = 240.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    # As users have it: durable, and vacuumed.
    with PostgresServer(fsync=True) as server:
        yield server


class Process:
    """One process of `outbox_processes`, and the last line that it said."""

    def __init__(self, *arguments: str) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.stores.postgres.transactions.enqueue_processes",
            *arguments,
        ]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.last = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.last = line.strip()

    @property
    def code(self) -> int | None:
        return self._process.poll()

    def end(self, how: signal.Signals) -> None:
        """End it, and read the rest of its output."""
        if self.code is None:
            os.kill(self._process.pid, how)
        self._process.wait(30)
        self._reader.join(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Producer:
    """Runs a part of the transactions; after a kill, it continues after the current one."""

    def __init__(self, scenario: Scenario, first: int, last: int) -> None:
        self._scenario = scenario
        self._next, self._last = first, last
        self.process = self._start()

    def _start(self) -> Process:
        numbers = [str(self._next), str(self._last), str(self._scenario.rng.randrange(1 << 30))]
        return self._scenario.process("produce", *numbers, self._scenario.mode)

    def kill(self) -> None:
        self.process.end(signal.SIGKILL)
        if self.process.last:
            self._next = int(self.process.last) + 1
        self.process = self._start()

    @property
    def over(self) -> bool:
        code = self.process.code
        assert code in (None, 0), f"a producer ended with {code}"
        return code == 0


class Scenario:
    """The application's tables, and the processes that write them."""

    def __init__(self, server: PostgresServer, schema: str, mode: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.mode = mode
        self._server = server
        self._schema = schema
        with server.connect() as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {TABLE} CASCADE")
            connection.execute(f"CREATE SCHEMA {TABLE}")
            for name in ("committed", "ran"):
                connection.execute(f"CREATE TABLE {TABLE}.{name} (id text PRIMARY KEY)")

    def process(self, role: str, *more: str) -> Process:
        return Process(role, self._server.socket_url, self._schema, TABLE, *more)

    def ids(self, name: str) -> set[str]:
        with self._server.connect() as connection:
            return {id for (id,) in connection.execute(f"SELECT id FROM {TABLE}.{name}")}

    def run(self, queue: Queue[object, object], transactions: int, kills: int) -> int:
        """Run all transactions and all jobs; returns how many processes were killed."""
        shares = [transactions * n // 4 for n in range(5)]
        producers = [Producer(self, *pair) for pair in itertools.pairwise(shares)]
        workers = [self.process("work") for _ in range(2)]
        killed, until = 0, time.monotonic() + RUN_TIMEOUT
        try:
            while not self._is_over(producers, queue):
                assert time.monotonic() < until, dict(queue.counts())
                time.sleep(self.rng.uniform(0.05, 0.4))
                if killed < kills:
                    killed += self._kill(producers, workers)
        finally:
            for process in (*(one.process for one in producers), *workers):
                process.end(signal.SIGKILL)
        return killed

    def _kill(self, producers: list[Producer], workers: list[Process]) -> bool:
        """Kill a process that is working; killing those that only start would prove nothing."""
        busy = [one for one in producers if not one.over and one.process.last]
        index = self.rng.randrange(len(workers))
        if busy and self.rng.random() < 0.7:
            self.rng.choice(busy).kill()
            return True
        if workers[index].last:
            workers[index].end(signal.SIGKILL)
            workers[index] = self.process("work")
            return True
        return False

    def _is_over(self, producers: list[Producer], queue: Queue[object, object]) -> bool:
        if not all(one.over for one in producers):
            return False
        counts = queue.counts()
        return not any(counts[state] for state in (State.QUEUED, State.PROCESSING, State.FAILING))


def test_the_jobs_that_ran_are_those_committed(
    server: PostgresServer, store: PostgresStore, schema: str
) -> None:
    """1,000 transactions, half of them rolled back, processes killed at random."""
    seed = random.randrange(1 << 30)
    scenario = Scenario(server, schema, "joined", seed)
    queue = Queues(store)[QUEUE]

    killed = scenario.run(queue, transactions=1000, kills=15)

    committed, ran = scenario.ids("committed"), scenario.ids("ran")
    assert ran == committed, f"seed {seed}, {killed} killed"
    assert 350 < len(committed) < 650
    assert killed >= 10
    assert queue.counts()[State.COMPLETED] == len(committed)


def test_control_without_the_transaction_jobs_and_rows_differ(
    server: PostgresServer, open_store: OpenStore, schema: str
) -> None:
    """The control: jobs enqueued beside the transaction run although it was rolled back."""
    scenario = Scenario(server, schema, "beside", seed=1)
    queue = Queues(open_store())[QUEUE]

    scenario.run(queue, transactions=60, kills=0)

    assert scenario.ids("ran") > scenario.ids("committed")
