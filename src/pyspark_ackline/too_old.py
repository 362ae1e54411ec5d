"""The format `ackline` in a Spark that is too old for it."""

from __future__ import annotations

import pyspark
from pyspark.sql.datasource import DataSource

from ackline.spark.version import require_spark


class TooOld(DataSource):
    """Refuses every use of the format, and says which Spark it needs."""

    def __init__(self, options: dict[str, str]) -> None:
        require_spark(pyspark.__version__)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """What to pass to `format`."""
        return "ackline"
