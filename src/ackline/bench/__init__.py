"""Measuring a store through the library that users call: `ackline bench`."""

from ackline.bench.measures import Figure, measure
from ackline.bench.plan import MEASURES, Plan

__all__ = ["MEASURES", "Figure", "Plan", "measure"]
