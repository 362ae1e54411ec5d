"""The history of a process: one line of JSON for each step.

A line is appended by a single write before the next step, so the history of a killed process is
complete.
"""

from __future__ import annotations

import enum
import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec


class StepType(enum.StrEnum):
    """The subject of a step."""

    ENQUEUE = "enqueue"
    DELIVERY = "delivery"
    SETTLE = "settle"
    READ = "read"
    FAULT = "fault"
    PROCESS = "process"


class Phase(enum.StrEnum):
    """The progress of a step; its outcome is unknown after `info`, or if `invoke` was the last."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of a history."""

    type: StepType
    phase: Phase
    at: float = 0.0
    process: str = ""
    id: str = ""
    act: str = ""
    """The settling or the fault."""
    token: int = 0
    attempt: int = 0
    worker: str = ""
    note: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Step).decode


class History:
    """The history of one process; the file stays locked for as long as the process runs."""

    def __init__(self, folder: Path, process: str) -> None:
        self.process = process
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path_of(folder, process), flags, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def write(self, *steps: Step) -> None:
        """Append steps, stamped with the time and the name of this process."""
        now = time.time()
        stamped = [msgspec.structs.replace(step, at=now, process=self.process) for step in steps]
        os.write(self._file, b"".join(_encode(step) + b"\n" for step in stamped))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def path_of(folder: Path, process: str) -> Path:
    """The path of the history of a process."""
    return folder / f"{process}.jsonl"


def read_one(path: Path) -> list[Step]:
    """The steps of one process; an incomplete last line is ignored."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    return [_decode(line) for line in text.split(b"\n")[:-1]]


def first_step(path: Path) -> Step | None:
    """The first step of a history, which names its process."""
    with path.open("rb") as file:
        line = file.readline()
    return _decode(line) if line.endswith(b"\n") else None


def read_all(folder: Path) -> list[Step]:
    """The steps of all processes, by time."""
    return sorted(
        (step for path in sorted(folder.glob("*.jsonl")) for step in read_one(path)),
        key=lambda step: step.at,
    )


def is_alive(folder: Path, process: str) -> bool:
    """Whether the process that writes this history is running; it need not be a child."""
    try:
        file = os.open(path_of(folder, process), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def count(steps: Iterable[Step], what: StepType, phase: Phase) -> int:
    """The number of steps of one type and phase."""
    return sum(step.type is what and step.phase is phase for step in steps)
