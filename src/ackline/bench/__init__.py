"""Measuring a store through the library that users call: `ackline bench`."""

from ackline.bench.measures import Measurement, measure
from ackline.bench.plan import MEASURES, BenchmarkPlan

__all__ = ["MEASURES", "BenchmarkPlan", "Measurement", "measure"]
