"""What can go wrong with a private server."""

from __future__ import annotations

from pathlib import Path

SHOWN = 30
"""Lines of a log that an error shows."""


class NoServerProgram(RuntimeError):
    """No server program was found; the message says what to install."""


class ServerNotStarted(RuntimeError):
    """The server did not come up; the message ends with its log."""

    def __init__(self, reason: str, log: Path) -> None:
        super().__init__(f"{reason}; the end of {log}:\n{tail(log)}")


class ServerTimeout(RuntimeError):
    """The server runs, but did not get where it should in time."""


def tail(log: Path) -> str:
    """The last lines of a log."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(lines[-SHOWN:])
