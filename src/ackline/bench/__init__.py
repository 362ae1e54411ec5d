"""Measures a store through the public library, for `ackline bench`."""

from ackline.bench.measures import MEASURES, BenchmarkPlan, Measurement, measure

__all__ = ["MEASURES", "BenchmarkPlan", "Measurement", "measure"]
