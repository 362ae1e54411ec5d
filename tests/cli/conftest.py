"""Running commands in this process, and as processes of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.text import Text

import ackline
from ackline.cli.app import run

ROOT = Path(__file__).parents[2]
SOURCE = Path(ackline.__file__).parents[1]


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def workdir(tmp_path: Path, monkeypatch) -> Path:
    """Each test in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACKLINE_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    # In the background of a shell it is ignored, and the processes of a test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return tmp_path


@pytest.fixture
def cli(capsys, monkeypatch) -> Callable[..., Answer]:
    def call(*arguments: str, stdin: str = "") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = run(arguments)
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return call


class Terminal(io.StringIO):
    """Takes what a command prints to a terminal, with its colours."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch) -> Callable[..., list[str]]:
    """A command in a terminal of some columns: the lines that are seen there."""

    def call(columns: int, *arguments: str) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", screen := Terminal())
            run(arguments)
        return [line.rstrip() for line in Text.from_ansi(screen.getvalue()).plain.splitlines()]

    return call


@pytest.fixture
def queues(workdir) -> Iterator[ackline.Queues]:
    """The store that commands use by default."""
    with ackline.open("sqlite:///ackline.db") as opened:
        yield opened


class Process:
    """A command, or a script, as a process; its standard error is read line by line."""

    def __init__(self, *arguments: str) -> None:
        paths = [str(SOURCE), str(ROOT), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    def wait_for(self, *words: str) -> str:
        """The next line of standard error that has these words."""
        assert self.process.stderr is not None
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if all(word in line for word in words):
                return line
        raise AssertionError(f"{words} never came: {''.join(seen)}")

    def end(self, number: signal.Signals | None = None, timeout: float = 20) -> Answer:
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=timeout)
        return Answer(self.process.returncode, out, err)

    def destroy(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(*arguments: str) -> Process:
        started.append(Process("-m", "ackline", *arguments))
        return started[-1]

    yield begin
    for process in started:
        process.destroy()


@pytest.fixture
def start_script() -> Iterator[Callable[..., Process]]:
    """Run a Python script as a process."""
    started: list[Process] = []

    def begin(script: str) -> Process:
        started.append(Process(script))
        return started[-1]

    yield begin
    for process in started:
        process.destroy()
