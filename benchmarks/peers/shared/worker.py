"""A peer's worker, in a process of its own, and what its jobs do."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import count

from shared.peer import Handle, Payload

PATIENCE = 5.0
"""Seconds for a worker to end by itself when nothing is left to do."""

LAPS = 10
"""Parts of a long drain that are timed."""


class Worker:
    """The same program as a worker; its handler prints numbers, line by line."""

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
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def tally(jobs: int) -> Handle:
    """Print when the first and the last job begin, and the processor time used by then."""
    numbers = count(1)

    def handle(_payload: Payload) -> None:
        number = next(numbers)
        if number == 1 or number == jobs:
            say(time.perf_counter(), time.process_time())

    return handle


def lap(jobs: int) -> Handle:
    """Print when the first job begins, and the last one of each tenth."""
    numbers = count(1)

    def handle(_payload: Payload) -> None:
        number = next(numbers)
        if number == 1 or number % (jobs // LAPS) == 0:
            say(time.perf_counter())

    return handle


def stamp(_jobs: int) -> Handle:
    """Print how long after its enqueue each job begins."""
    return lambda payload: say(time.perf_counter() - payload["at"])


def echo(_jobs: int) -> Handle:
    return lambda payload: payload


HANDLERS = {"tally": tally, "lap": lap, "stamp": stamp, "echo": echo}


def say(*numbers: float) -> None:
    print(*numbers, flush=True)
