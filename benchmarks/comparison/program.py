"""Run a program that prints one JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TIMEOUT = 1800.0
"""Seconds after which a program that does not end is killed."""


class ProgramFailed(RuntimeError):
    """A program did not end, or failed; the message ends with its errors."""

    def __init__(self, command: Sequence[str], problem: str, output: str = "") -> None:
        self.short = f"{' '.join(Path(part).name for part in command[:3])} {problem}"
        super().__init__(f"{self.short}\n{output}".strip())


def call(command: Sequence[str]) -> dict[str, Any]:
    """Run a program to its end, and kill its workers if it fails."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=TIMEOUT)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ProgramFailed(command, f"did not end in {TIMEOUT:g} s") from None
            raise
    if process.returncode != 0:
        raise ProgramFailed(command, f"ended with {process.returncode}", errors)
    answer: dict[str, Any] = json.loads(output)
    return answer
