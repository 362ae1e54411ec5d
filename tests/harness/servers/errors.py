"""Errors of private servers."""

from __future__ import annotations

from pathlib import Path

LOG_LINES = 30
"""How many lines of a log an error shows."""


class NoServerProgram(RuntimeError):
    """No server program was found; the message says what to install."""


class ServerNotStarted(RuntimeError):
    """The server did not start; the message ends with its log."""

    def __init__(self, reason: str, log: Path) -> None:
        super().__init__(f"{reason}; the end of {log}:\n{tail(log)}")


class ServerTimeout(RuntimeError):
    """The server is running, but a condition did not hold in time."""


def tail(log: Path) -> str:
    """The last lines of a log."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(lines[-LOG_LINES:])
