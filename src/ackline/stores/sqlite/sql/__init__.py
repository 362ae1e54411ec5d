"""The SQL statements of the store; `sql("lease")` is the statement of that name."""

from __future__ import annotations

import functools

from ackline.stores.shared.sql_files import read_statements


@functools.cache
def sql(name: str) -> str:
    """One statement, without its comments."""
    return statements()[name]


@functools.cache
def statements() -> dict[str, str]:
    """All statements by name."""
    return read_statements(__package__)
