"""The format, as a Spark has it that is too old for it."""

from __future__ import annotations

import pyspark
from pyspark.sql.datasource import DataSource

from ackline.spark.version import require_spark


class TooOld(DataSource):
    """Says what is needed, to whoever reads or writes the format."""

    def __init__(self, options: dict[str, str]) -> None:
        require_spark(pyspark.__version__)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """What to pass to `format`."""
        return "ackline"
