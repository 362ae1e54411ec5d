"""The format `ackline`: which reader or writer serves which table."""

from __future__ import annotations

import logging

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ackline.errors import ConfigError
from ackline.spark import schemas
from ackline.spark.claims.stream import ClaimsStreamReader
from ackline.spark.events.stream import EventsStreamReader
from ackline.spark.events.table import EventsReader
from ackline.spark.jobs import JobsReader
from ackline.spark.option_parsing import read_options, table_of
from ackline.spark.option_text import names_of, require_known, which_of
from ackline.spark.options import (
    JobsTableOptions,
    ReadClaims,
    ReadEvents,
    Reading,
    WriteJobs,
    WriteOutcomes,
)
from ackline.spark.store_address import StoreAddress, find_address, missing_queue
from ackline.spark.writing.jobs import JobsStreamWriter, JobsWriter
from ackline.spark.writing.outcomes import OutcomesStreamWriter, OutcomesWriter

logger = logging.getLogger("ackline")


class AcklineSource(DataSource):
    """Jobs and the journal of any store, as tables and streams.

    >>> spark.read.format("ackline").option("store", url).load("jobs")  # doctest: +SKIP
    """

    @classmethod
    def name(cls) -> str:
        """What `format(…)` is given."""
        return "ackline"

    def schema(self) -> StructType:
        """The columns of the table; a stream of jobs has those of claims."""
        table = table_of(self.options)
        if table == "jobs" and "streamId" in self.options:
            return schemas.CLAIMS
        match table:
            case "events":
                return schemas.EVENTS
            case "jobs" | "dlq":
                return _columns_of_jobs(self.options.get("columns"))
            case _:
                tables = ("jobs", "dlq", "events")
                raise ConfigError(f"no table {table!r} can be read: {which_of(table, tables)}")

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        options = read_options("read", self.options)
        assert isinstance(options, Reading)
        address = find_address(options)
        if missing := _missing(options, address):
            raise ConfigError(missing)
        if isinstance(options, ReadEvents):
            _require_schema(schema, schemas.EVENTS)
            return EventsReader(options, address)
        assert isinstance(options, JobsTableOptions)
        _require_schema(schema, _columns_of_jobs(options.columns))
        return JobsReader(options, address)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For `spark.readStream`."""
        options = read_options("readStream", self.options)
        assert isinstance(options, Reading)
        address = find_address(options)
        if missing := _missing(options, address):
            # A stream may be started before the queue has its first job.
            logger.warning("%s; the stream waits for it", missing)
        if isinstance(options, ReadEvents):
            _require_schema(schema, schemas.EVENTS)
            return EventsStreamReader(options, address)
        assert isinstance(options, ReadClaims)
        _require_schema(schema, schemas.CLAIMS)
        return ClaimsStreamReader(options, address)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `DataFrame.write`."""
        options, address = self._writing(overwrite)
        if isinstance(options, WriteOutcomes):
            return OutcomesWriter(options, address, schema)
        return JobsWriter(options, address, schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """For `DataFrame.writeStream`."""
        options, address = self._writing(overwrite)
        if isinstance(options, WriteOutcomes):
            return OutcomesStreamWriter(options, address, schema)
        return JobsStreamWriter(options, address, schema)

    def _writing(self, overwrite: bool) -> tuple[WriteJobs | WriteOutcomes, StoreAddress]:
        if overwrite:
            raise ConfigError('jobs are added, never overwritten: write with .mode("append")')
        options = read_options("write", self.options)
        assert isinstance(options, WriteJobs | WriteOutcomes)
        return options, find_address(options, creates=True)


def _columns_of_jobs(asked: str | None) -> StructType:
    names = None if asked is None else names_of(asked)
    require_known("column", sorted(names or ()), schemas.JOBS.names)
    return schemas.jobs_with(names)


def _missing(options: Reading, address: StoreAddress) -> str | None:
    if options.queue is None:
        return None
    return missing_queue(address, options.queue, dropped=isinstance(options, ReadEvents))


def _require_schema(requested: StructType, actual: StructType) -> None:
    # Also if only a type or a nullability differs: Spark would not report that before its tasks.
    if requested != actual:
        raise ConfigError(
            f"this table has the columns {', '.join(actual.names)}: leave .schema(…) out, "
            "and choose columns with select"
        )
