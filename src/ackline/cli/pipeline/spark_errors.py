"""Errors from inside Spark, turned into those that a command of ours would raise."""

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
"""The last line of a Python traceback that ends with an error of ours."""

JAVA_OUTPUT = re.compile(
    r"^\s*$|^\s+at |^ ?SQLSTATE|^===|^Traceback|^JVM stacktrace|^Driver stacktrace"
)
"""A line that is no longer part of the message, but of Java's output."""

QUERY_ERRORS = (
    *("AnalysisException", "ArithmeticException", "ArrayIndexOutOfBoundsException"),
    *("DateTimeException", "NumberFormatException", "ParseException", "SparkRuntimeException"),
)
"""What Spark raises for a mistake in --where or --set, even one that only some rows reveal."""


class Stoppable(Protocol):
    """The part of a Spark session that is needed here."""

    def stop(self) -> None: ...


@contextmanager
def stopping_spark(spark: Stoppable, stopped: str = "run it again to begin anew") -> Iterator[None]:
    """Stop Spark at the end; an error from within it says what happened, without Java's part.

    At Ctrl-C, `stopped` says how things stand then.
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
    """Stop a Spark whose Java was ended by Ctrl-C, as far as that goes."""
    with warnings.catch_warnings(action="ignore"), suppress(Exception):
        spark.stop()


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether it comes from Ctrl-C; what is then done to end well may fail without Java."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def translate_error(error: Exception) -> Exception:
    """Our own error if any process of Spark raised one, else the first line of Spark's message."""
    text = str(error)
    if (ours := find_ackline_error(text)) is not None:
        return ours
    # If PySpark passes on an error of Java's, the text begins with the call that failed.
    message = text.partition("\n: ")[2] or text
    # It may quote what a job says.
    first = safe(message.strip().split("\n")[0]) or type(error).__name__
    if type(error).__name__ in QUERY_ERRORS:
        return UsageError(f"Spark refuses it: {first}")
    return CommandError(
        f"Spark failed: {first}\nRun it again with --debug to see all that it says."
    )


def find_ackline_error(text: str) -> AcklineError | None:
    """The last error of ours that ends a traceback in a text."""
    found = list(TRACEBACK_END.finditer(text))
    if not found:
        return None
    module, name, first = found[-1].groups()
    lines = [first]
    for line in text[found[-1].end() :].splitlines()[1:]:
        if JAVA_OUTPUT.match(line):
            break
        lines.append(line)
    kind = _error_class(module, name)
    # Its constructor would build the message from parts; here the message is complete already.
    error: AcklineError = kind.__new__(kind)
    Exception.__init__(error, safe_lines("\n".join(lines)))
    return error


def _error_class(module: str, name: str) -> type[AcklineError]:
    """The class that a text names; another version may have it, or none at all."""
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except (ImportError, AcklineError):
        return AcklineError
    return kind if isinstance(kind, type) and issubclass(kind, AcklineError) else AcklineError
