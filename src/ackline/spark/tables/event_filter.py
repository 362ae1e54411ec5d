"""Filters events before they go to Spark.

The whole journal is read: where a clock was set back, an event of the selected time may follow a
later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce

import pyarrow
import pyarrow.compute

from ackline.spark.options import EventsOptions
from ackline.spark.tables.job_rows import timestamp_array

Condition = tuple[str, Callable[[pyarrow.Array], pyarrow.Array]]
"""The name of a column, and a test of its values."""


def filter_conditions(options: EventsOptions) -> list[Condition]:
    """The conditions that the options set; none if all events are wanted."""
    conditions: list[Condition] = []
    if options.kinds_or_all is not None:
        conditions.append(("kind", _one_of(options.kinds_or_all)))
    if options.act_set is not None:
        conditions.append(("act", _one_of(options.act_set)))
    if options.happened_since is not None:
        conditions.append(
            (
                "at",
                partial(pyarrow.compute.less_equal, timestamp_array([options.happened_since])[0]),
            )
        )
    if options.until is not None:
        conditions.append(
            ("at", partial(pyarrow.compute.greater, timestamp_array([options.until])[0]))
        )
    return conditions


def filter_events(batch: pyarrow.RecordBatch, conditions: list[Condition]) -> pyarrow.RecordBatch:
    """The rows of a batch for which all conditions hold."""
    if not conditions:
        return batch
    matches = [test(batch.column(name)) for name, test in conditions]
    return batch.filter(reduce(pyarrow.compute.and_, matches))


def _one_of(names: Iterable[str]) -> Callable[[pyarrow.Array], pyarrow.Array]:
    return partial(pyarrow.compute.is_in, value_set=pyarrow.array(names, pyarrow.string()))
