"""Run a program that prints one JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATIENCE = 1800.0
"""Seconds after which a program that does not end is given up."""


class ProgramFailed(RuntimeError):
    """It did not end, or not well; the message ends with what it said."""

    def __init__(self, command: Sequence[str], what: str, said: str = "") -> None:
        self.short = f"{' '.join(Path(part).name for part in command[:3])} {what}"
        super().__init__(f"{self.short}\n{said}".strip())


def call(command: Sequence[str]) -> dict[str, Any]:
    """Run it to its end, and never leave a worker of its behind."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, complaint = process.communicate(timeout=PATIENCE)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ProgramFailed(command, f"did not end in {PATIENCE:g} s") from None
            raise
    if process.returncode != 0:
        raise ProgramFailed(command, f"ended with {process.returncode}", complaint)
    answer: dict[str, Any] = json.loads(said)
    return answer
