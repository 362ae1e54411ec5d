"""SQL over the gold tables of a lake: `sql("hours")` is the statement of that name."""

from __future__ import annotations

import functools

from ackline.stores.shared.sql_files import read_statements


@functools.cache
def sql(name: str) -> str:
    """One statement, without its comments."""
    return read_statements(__package__)[name]
