"""Filters the events that were read, so that unwanted ones need not go to Spark.

All pages of a journal must be read: its times go back where a clock was set back, so an event in
the wanted time may still follow a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce

import pyarrow
import pyarrow.compute

from ackline.spark.options import ReadEvents
from ackline.spark.rows import times

Condition = tuple[str, Callable[[pyarrow.Array], pyarrow.Array]]
"""The name of a column, and a test of its values."""


def conditions_of(options: ReadEvents) -> list[Condition]:
    """The conditions that the options set; none if all events are wanted."""
    conditions: list[Condition] = []
    if options.kind_set is not None:
        conditions.append(("kind", _one_of(options.kind_set)))
    if options.act_set is not None:
        conditions.append(("act", _one_of(options.act_set)))
    if options.since is not None:
        conditions.append(("at", partial(pyarrow.compute.less_equal, times([options.since])[0])))
    if options.until is not None:
        conditions.append(("at", partial(pyarrow.compute.greater, times([options.until])[0])))
    return conditions


def wanted(batch: pyarrow.RecordBatch, conditions: list[Condition]) -> pyarrow.RecordBatch:
    """The rows of a batch for which all conditions hold."""
    if not conditions:
        return batch
    holding = [holds(batch.column(name)) for name, holds in conditions]
    return batch.filter(reduce(pyarrow.compute.and_, holding))


def _one_of(names: Iterable[str]) -> Callable[[pyarrow.Array], pyarrow.Array]:
    return partial(pyarrow.compute.is_in, value_set=pyarrow.array(names, pyarrow.string()))
