"""Quantiles that can be merged: KLL sketches, of hours into days, of batches into hours."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

K = 1000
"""The accuracy of a sketch: ranks are right to about 0.2 %, in 20 KB at most."""

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
"""What is shown of a sketch, by the suffix of the column's name."""


def sketch(values: Column) -> Column:
    """A sketch of a group's values; nulls are left out."""
    return F.kll_sketch_agg_double(values, F.lit(K))


def merge_sketches(sketches: str) -> Column:
    """One sketch of a group's sketches."""
    return F.kll_merge_agg_double(sketches, F.lit(K))


def sketch_count(sketch: str) -> Column:
    """How many values a sketch has."""
    return F.kll_sketch_get_n_double(sketch)


def quantiles(sketch: str, name: str) -> list[Column]:
    """Columns such as `wait_p99`, null where there was nothing to measure."""
    return [
        F.when(
            sketch_count(sketch) > 0, F.kll_sketch_get_quantile_double(sketch, F.lit(rank))
        ).alias(f"{name}_{ending}")
        for ending, rank in QUANTILES.items()
    ]


def share_within(sketch: str, most: float) -> Column:
    """The share of the values that are not above this one; null if there are none."""
    return F.when(sketch_count(sketch) > 0, F.kll_sketch_get_rank_double(sketch, F.lit(most)))
