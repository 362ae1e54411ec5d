"""What went wrong inside Spark, said as if it had gone wrong here."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ackline.cli.exits import Refusal, UsageMistake
from ackline.errors import AcklineError

RAISED = re.compile(r"^(ackline(?:\.\w+)*)\.(\w+): (.*)$", re.MULTILINE)
"""The last line of a traceback of Python's, with an error of ours."""

OTHER = re.compile(r"^\s*$|^\s+at |^ ?SQLSTATE|^===|^Traceback|^JVM stacktrace|^Driver stacktrace")
"""A line that belongs to what Java says, no longer to the message."""

OF_THE_QUERY = (
    *("AnalysisException", "ArithmeticException", "ArrayIndexOutOfBoundsException"),
    *("DateTimeException", "NumberFormatException", "ParseException", "SparkRuntimeException"),
)
"""What Spark raises for a mistake in --where or --set, also when it shows only in some row."""


class Stoppable(Protocol):
    """A Spark session, as far as it matters here."""

    def stop(self) -> None: ...


@contextmanager
def ending(spark: Stoppable) -> Iterator[None]:
    """Stop Spark at the end; an error from within it says what happened, without Java's part."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise in_plain_words(error) from error
    finally:
        spark.stop()


def in_plain_words(error: Exception) -> Exception:
    """Our own error if there was one in any process of Spark's, else what Spark says first."""
    text = str(error)
    if (ours := raised_in(text)) is not None:
        return ours
    # An error of Java's that PySpark passes on says first which call of PySpark's it was.
    said = text.partition("\n: ")[2] or text
    first = said.strip().splitlines()[0] if said.strip() else type(error).__name__
    if type(error).__name__ in OF_THE_QUERY:
        return UsageMistake(f"Spark refuses it: {first}")
    return Refusal(f"Spark failed: {first}\nRun it again with --debug to see all that it says.")


def raised_in(text: str) -> AcklineError | None:
    """The last error of ours that a traceback in a text ends with."""
    found = list(RAISED.finditer(text))
    if not found:
        return None
    module, name, first = found[-1].groups()
    lines = [first]
    for line in text[found[-1].end() :].splitlines()[1:]:
        if OTHER.match(line):
            break
        lines.append(line)
    kind = _kind_of(module, name)
    # Its constructor takes what the message is made of; the message is made already.
    error: AcklineError = kind.__new__(kind)
    Exception.__init__(error, "\n".join(lines))
    return error


def _kind_of(module: str, name: str) -> type[AcklineError]:
    """The class that a text names; it may be of another version, or nobody's at all."""
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except (ImportError, AcklineError):
        return AcklineError
    return kind if isinstance(kind, type) and issubclass(kind, AcklineError) else AcklineError
