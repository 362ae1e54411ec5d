"""What a query's WHERE clause leaves to the store."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from ackline.job import State

SLACK = 1e-3
"""Seconds by which a bound is widened: Spark's times are rounded to microseconds."""


class Wanted(msgspec.Struct, frozen=True):
    """Which rows are wanted; None means all. Spark checks times again itself."""

    queues: frozenset[str] | None = None
    states: frozenset[State] = frozenset(State)
    kinds: frozenset[str] | None = None
    created_after: float | None = None
    created_before: float | None = None


def narrow(
    wanted: Wanted, filters: Iterable[Filter], columns: frozenset[str]
) -> tuple[Wanted, list[Filter]]:
    """Take the filters that the store can apply; returns those left to Spark."""
    left = []
    for one in filters:
        narrower = _narrow(wanted, one, columns)
        wanted = narrower or wanted
        if narrower is None or _is_of_time(one):
            left.append(one)
    return wanted, left


def _is_of_time(one: Filter) -> bool:
    return getattr(one, "attribute", None) == ("created_at",)


def _narrow(wanted: Wanted, one: Filter, columns: frozenset[str]) -> Wanted | None:
    [*path] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in columns:
        return None
    column = path[0]
    if column == "created_at":
        return _narrow_time(wanted, one)
    match one:
        case EqualTo(value=str() as value):
            values = frozenset({value})
        case In(value=several) if all(isinstance(value, str) for value in several):
            values = frozenset(several)
        case _:
            return None
    return _narrow_names(wanted, column, values)


def _narrow_names(wanted: Wanted, column: str, values: frozenset[str]) -> Wanted | None:
    match column:
        case "queue":
            queues = values if wanted.queues is None else wanted.queues & values
            return msgspec.structs.replace(wanted, queues=queues)
        case "kind":
            kinds = values if wanted.kinds is None else wanted.kinds & values
            return msgspec.structs.replace(wanted, kinds=kinds)
        case "state":
            states = frozenset(state for state in wanted.states if state.value in values)
            return msgspec.structs.replace(wanted, states=states)
        case _:
            return None


def _narrow_time(wanted: Wanted, one: Filter) -> Wanted | None:
    value: Any = getattr(one, "value", None)
    if not isinstance(value, datetime):
        return None
    seconds = value.timestamp()
    match one:
        case GreaterThan() | GreaterThanOrEqual():
            after = max(seconds - SLACK, wanted.created_after or 0.0)
            return msgspec.structs.replace(wanted, created_after=after)
        case LessThan() | LessThanOrEqual():
            before = min(seconds + SLACK, wanted.created_before or float("inf"))
            return msgspec.structs.replace(wanted, created_before=before)
        case _:
            return None
