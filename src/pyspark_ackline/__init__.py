"""Lets Spark find the format `ackline` by itself: it looks for modules called `pyspark_…`."""

from ackline.spark.source import AcklineSource as DefaultSource

__all__ = ["DefaultSource"]
