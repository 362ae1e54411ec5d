"""Exit codes, and the messages of errors for the person who typed the command."""

from __future__ import annotations

import os
import sys

from ackline.core.errors import AcklineError, ConfigError, InvalidJob, StoreError

REFUSED = 1
"""What was asked for did not happen."""

USAGE = 2
"""The command, a value or a setting cannot work."""

UNAVAILABLE = 3
"""The store cannot be reached, is full, or is not ours."""

INTERRUPTED = 130
"""Ctrl-C, with the code that shells use."""

PIPE_CLOSED = 141
"""The reader of our output is gone (`| head`), with the code that shells use."""


class Refusal(Exception):
    """What was asked for did not happen; says what, where, and what to do."""

    def __init__(self, message: str, code: int = REFUSED) -> None:
        super().__init__(message)
        self.code = code


class UsageError(Refusal):
    """A command line that cannot work."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


def exit_code(error: BaseException) -> int:
    """The exit code that an error leads to."""
    match error:
        case Refusal():
            return error.code
        case KeyboardInterrupt():
            return INTERRUPTED
        case BrokenPipeError():
            return PIPE_CLOSED
        case ConfigError() | InvalidJob():
            return USAGE
        case StoreError():
            return UNAVAILABLE
        case _:
            return REFUSED


def error_message(error: BaseException) -> str:
    """One or two lines; empty if the command ends quietly."""
    match error:
        case KeyboardInterrupt() | BrokenPipeError():
            return ""
        case Refusal() | AcklineError():
            return str(error)
        case OSError() if error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror}"
        case _:
            return (
                f"unexpected {type(error).__name__}: {error}\n"
                "This is a bug in Ackline: run it again with --debug and report what it shows."
            )


def discard_output() -> None:
    """Nobody reads our output any more: let the interpreter's last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
