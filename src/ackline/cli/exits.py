"""Exit codes and error messages of commands."""

from __future__ import annotations

import os
import sys

from ackline.core.errors import AcklineError, ConfigError, InvalidJob, LifespanFailed, StoreError

FAILED = 1
"""The command was refused, or failed."""

USAGE = 2
"""The command line, a value or a setting is invalid."""

UNAVAILABLE = 3
"""The store cannot be reached, is full, or is not one of Ackline's."""

INTERRUPTED = 130
"""Ctrl-C; the code that shells use."""

PIPE_CLOSED = 141
"""The reader of the output has exited (`| head`); the code that shells use."""


class CommandError(Exception):
    """A command was refused or failed; the message says why, and what to do."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """An invalid command line."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


def exit_code(error: BaseException) -> int:
    """The exit code of an error."""
    match error:
        case CommandError():
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
            return FAILED


def error_message(error: BaseException) -> str:
    """The message of an error, in one or two lines; empty if nothing is to be printed."""
    match error:
        case KeyboardInterrupt() | BrokenPipeError():
            return ""
        case LifespanFailed():
            return f"{error}\nRun it again with --debug to see the traceback."
        case CommandError() | AcklineError():
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
    """Send the rest of the output to /dev/null, because its reader has exited."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(devnull, stream.fileno())
    os.close(devnull)
