"""Errors that name the missing or broken files of a lake, and what to do about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ackline.spark.errors import LakeDamaged

OF_SPARK = re.compile(
    r"\[FAILED_READ_FILE[^\]]*\][^\n]*? file (?P<broken>\S+?)\.?(\s|$)"
    r"|\[PATH_NOT_FOUND\] Path does not exist: (?P<missing>\S+?)\.?(\s|$)"
)
"""What Spark says about a file that it cannot read, or about a folder that is not there."""

OF_A_FOOTER = "thrift"
"""What Arrow says about a file whose end was overwritten."""


@contextmanager
def naming_damage(path: str) -> Iterator[None]:
    """Say which table Arrow could not read."""
    try:
        yield
    except FileNotFoundError:
        raise missing(path) from None
    except pyarrow.ArrowInvalid as error:
        raise unreadable(path, error) from None
    except OSError as error:
        if OF_A_FOOTER not in str(error):
            raise
        raise unreadable(path, error) from None


@contextmanager
def naming_damage_in_spark() -> Iterator[None]:
    """Say which table Spark could not read: Spark reports it as a mistake in the query."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        found = OF_SPARK.search(str(error))
        if found is None:
            raise
        if found["missing"]:
            raise missing(found["missing"]) from error
        raise unreadable(found["broken"], "Spark could not read it") from error


def unreadable(path: str, why: object) -> LakeDamaged:
    """The error for a file, or for a folder with a file, that is broken."""
    why = " ".join(str(why).split()).rstrip(".")
    return LakeDamaged(
        f"{path} cannot be read: {why}. Restore it from a backup, or make another lake"
    )


def missing(path: str) -> LakeDamaged:
    """The error for a table that is in the lake's log, but not in its folder."""
    return LakeDamaged(
        f"{path} is missing: someone else has changed the lake. Restore it from a backup, or make "
        "another lake"
    )
