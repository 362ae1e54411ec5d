"""Translate errors from inside Spark into Ackline's."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from ackline.cli.exits import INTERRUPTED, CommandError, UsageError
from ackline.cli.output.text import safe, safe_lines
from ackline.core.errors import AcklineError

TRACEBACK_END = re.compile(r"^(ackline(?:\.\w+)*)\.(\w+): (.*)$", re.MULTILINE)
"""The last line of a Python traceback that ends with one of Ackline's errors."""

JAVA_OUTPUT = re.compile(
    r"^\s*$|^\s+at |^ ?SQLSTATE|^===|^Traceback|^JVM stacktrace|^Driver stacktrace"
)
"""A line that belongs to Java's output, not to the message."""

QUERY_ERRORS = (
    *("AnalysisException", "ArithmeticException", "ArrayIndexOutOfBoundsException"),
    *("DateTimeException", "NumberFormatException", "ParseException", "SparkRuntimeException"),
)
"""What Spark raises for a mistake in --where or --set, even if only some rows show it."""


class Stoppable(Protocol):
    """The part of a Spark session that is needed here."""

    def stop(self) -> None: ...


@contextmanager
def stopping_spark(spark: Stoppable, stopped: str = "run it again to start over") -> Iterator[None]:
    """Stop Spark at the end, and translate its errors, without Java's part of the message.

    On Ctrl-C, the message ends with `stopped`, which says what that means.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except BaseException as error:
        if _is_interrupt(error):
            _stop_without_java(spark)
            raise CommandError(f"stopped: {stopped}", INTERRUPTED) from error
        spark.stop()
        if isinstance(error, (PySparkException, Py4JError)):
            raise translate_error(error) from error
        raise
    spark.stop()


def _stop_without_java(spark: Stoppable) -> None:
    """Stop Spark as far as possible when Ctrl-C has already ended Java."""
    with warnings.catch_warnings(action="ignore"), suppress(Exception):
        spark.stop()


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C caused it, directly or by a failure of the clean-up after it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def translate_error(error: Exception) -> Exception:
    """Ackline's error, if a Spark process raised one; else the first line of Spark's message."""
    text = str(error)
    if (found := find_ackline_error(text)) is not None:
        return found
    # PySpark puts the call that failed before an error of Java's.
    message = text.partition("\n: ")[2] or text
    # It may quote a job's data.
    first = safe(message.strip().split("\n")[0]) or type(error).__name__
    if type(error).__name__ in QUERY_ERRORS:
        return UsageError(f"Spark rejected it: {first}")
    return CommandError(f"Spark failed: {first}\nRun it again with --debug to see the whole error.")


def find_ackline_error(text: str) -> AcklineError | None:
    """The last of Ackline's errors that ends a traceback in a text."""
    found = list(TRACEBACK_END.finditer(text))
    if not found:
        return None
    module, name, first = found[-1].groups()
    lines = [first]
    for line in text[found[-1].end() :].splitlines()[1:]:
        if JAVA_OUTPUT.match(line):
            break
        lines.append(line)
    error_class = _error_class(module, name)
    # The constructor would build the message from parts; here it is complete.
    error: AcklineError = error_class.__new__(error_class)
    Exception.__init__(error, safe_lines("\n".join(lines)))
    return error


def _error_class(module: str, name: str) -> type[AcklineError]:
    """The error class of this name, or `AcklineError` if this version has none."""
    try:
        found = getattr(importlib.import_module(module), name, None)
    except (ImportError, AcklineError):
        return AcklineError
    return found if isinstance(found, type) and issubclass(found, AcklineError) else AcklineError
