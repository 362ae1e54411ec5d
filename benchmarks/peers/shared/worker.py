"""A peer's worker, in a process of its own, and what its jobs do."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import count

from shared.peer import Handle, Payload

TIMEOUT = 5.0
"""Seconds in which a worker must exit by itself."""

TENTHS = 10
"""Parts of a long drain that are timed."""


class Worker:
    """The same program as a worker process; its handler prints numbers, line by line."""

    def __init__(self, handler: str, jobs: int) -> None:
        options = [*sys.argv[2:], "--jobs", str(jobs), "--handler", handler]
        self._command = [sys.executable, sys.argv[0], "work", *options]

    def __enter__(self) -> Worker:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        return self

    def numbers(self) -> list[float]:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return [float(number) for number in line.split()]
        raise SystemExit(f"the worker has ended with {self._process.wait()}")

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def tally(jobs: int) -> Handle:
    """Print when the first and the last job start, and the processor time used by then."""
    numbers = count(1)

    def handle(_payload: Payload) -> None:
        number = next(numbers)
        if number == 1 or number == jobs:
            print_numbers(time.perf_counter(), time.process_time())

    return handle


def progress(jobs: int) -> Handle:
    """Print when the first job starts, and the last one of each tenth."""
    numbers = count(1)

    def handle(_payload: Payload) -> None:
        number = next(numbers)
        if number == 1 or number % (jobs // TENTHS) == 0:
            print_numbers(time.perf_counter())

    return handle


def stamp(_jobs: int) -> Handle:
    """Print the time from enqueue to start of each job."""
    return lambda payload: print_numbers(time.perf_counter() - payload["at"])


def echo(_jobs: int) -> Handle:
    return lambda payload: payload


HANDLERS = {"tally": tally, "progress": progress, "stamp": stamp, "echo": echo}


def print_numbers(*numbers: float) -> None:
    print(*numbers, flush=True)
