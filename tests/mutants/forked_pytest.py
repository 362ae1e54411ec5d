"""Run pytest in a fork of a process that has imported everything except the source."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.mutants.preload"])

STAGE_TIMEOUT = 1800.0
"""Timeout of a stage in seconds; a single test that hangs fails much earlier."""

_OTHER_SOURCE = 70
"""The exit code if the tests ran with another source."""


class Run(NamedTuple):
    """How pytest ended, and what it printed."""

    code: int
    output: str


def run_pytest(source: Path, arguments: list[str]) -> Run:
    """Run tests with the package in `source`, also in the programs that they start."""
    output = source.parent / "output"
    output.unlink(missing_ok=True)
    process = _context.Process(target=_run, args=(source, arguments, output))
    process.start()
    try:
        process.join(STAGE_TIMEOUT)
        code = process.exitcode
    finally:
        process.kill()
        process.join()
    if code is None:
        return Run(pytest.ExitCode.INTERRUPTED, f"not finished after {STAGE_TIMEOUT:.0f} s")
    return Run(code, output.read_text())


def _run(source: Path, arguments: list[str], output: Path) -> None:
    for stream in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    imported_before = "ackline" in sys.modules
    sys.path.insert(0, str(source))
    os.environ |= {"PYTHONPATH": str(source), "ACKLINE_HISTORIES": "100"}
    code = int(pytest.main(arguments))
    ran = sys.modules["ackline"].__file__ or "" if "ackline" in sys.modules else ""
    if imported_before or not ran.startswith(str(source)):
        print(f"{ran!r} was tested instead of {source}")
        code = _OTHER_SOURCE
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # does not wait for threads that a mutant may have left
