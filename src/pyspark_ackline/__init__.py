"""Lets Spark find the format `ackline` by itself: it looks for modules called `pyspark_…`."""

from __future__ import annotations

import pyspark
from pyspark.sql.datasource import DataSource

from ackline.core.errors import ConfigError
from ackline.spark.version import require_spark

__all__ = ["DefaultSource"]


def _find_source() -> type[DataSource]:
    try:
        require_spark(pyspark.__version__)
    except ConfigError:
        # Raised here, it would keep Spark from finding any format, those of others included.
        from pyspark_ackline.too_old import TooOld

        return TooOld
    from ackline.spark.data_source import AcklineSource

    return AcklineSource


DefaultSource = _find_source()
