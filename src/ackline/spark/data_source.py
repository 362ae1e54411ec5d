"""The data source `ackline`: the reader or writer for each table."""

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

from ackline.core.errors import ConfigError
from ackline.spark import schemas
from ackline.spark.option_parsing import parse_options, table_option
from ackline.spark.option_text import parse_names, require_known, suggest_or_list
from ackline.spark.options import (
    ClaimsOptions,
    EventsOptions,
    JobsReadOptions,
    JobsWriteOptions,
    OutcomesWriteOptions,
    ReadOptions,
)
from ackline.spark.store.address import StoreAddress, missing_queue_message, resolve_address
from ackline.spark.streams.claims.stream_reader import ClaimsStreamReader
from ackline.spark.streams.events.stream_reader import EventsStreamReader
from ackline.spark.tables.events import EventsTableReader
from ackline.spark.tables.jobs import JobsTableReader
from ackline.spark.writing.job_writer import JobsStreamWriter, JobsTableWriter
from ackline.spark.writing.outcome_writer import OutcomesStreamWriter, OutcomesTableWriter

logger = logging.getLogger("ackline")


class AcklineSource(DataSource):
    """Jobs and the journal of any store, as tables and streams.

    >>> spark.read.format("ackline").option("store", url).load("jobs")  # doctest: +SKIP
    """

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "ackline"

    def schema(self) -> StructType:
        """The columns of the table; a stream of jobs has those of claims."""
        table = table_option(self.options)
        if table == "jobs" and "streamId" in self.options:
            return schemas.CLAIMS
        match table:
            case "events":
                return schemas.EVENTS
            case "jobs" | "dlq":
                return _job_columns(self.options.get("columns"))
            case _:
                tables = ("jobs", "dlq", "events")
                raise ConfigError(
                    f"no table {table!r} can be read: {suggest_or_list(table, tables)}"
                )

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        options = parse_options("read", self.options)
        assert isinstance(options, ReadOptions)
        address = resolve_address(options)
        if missing := _missing_queue_message(options, address):
            raise ConfigError(missing)
        if isinstance(options, EventsOptions):
            _require_own_schema(schema, schemas.EVENTS)
            return EventsTableReader(options, address)
        assert isinstance(options, JobsReadOptions)
        _require_own_schema(schema, _job_columns(options.columns))
        return JobsTableReader(options, address)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For `spark.readStream`."""
        options = parse_options("readStream", self.options)
        assert isinstance(options, ReadOptions)
        address = resolve_address(options)
        if missing := _missing_queue_message(options, address):
            # A stream may be started before the queue has its first job.
            logger.warning("%s; the stream waits for it", missing)
        if isinstance(options, EventsOptions):
            _require_own_schema(schema, schemas.EVENTS)
            return EventsStreamReader(options, address)
        assert isinstance(options, ClaimsOptions)
        _require_own_schema(schema, schemas.CLAIMS)
        return ClaimsStreamReader(options, address)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `DataFrame.write`."""
        options, address = self._writing(overwrite)
        if isinstance(options, OutcomesWriteOptions):
            return OutcomesTableWriter(options, address, schema)
        return JobsTableWriter(options, address, schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """For `DataFrame.writeStream`."""
        options, address = self._writing(overwrite)
        if isinstance(options, OutcomesWriteOptions):
            return OutcomesStreamWriter(options, address, schema)
        return JobsStreamWriter(options, address, schema)

    def _writing(
        self, overwrite: bool
    ) -> tuple[JobsWriteOptions | OutcomesWriteOptions, StoreAddress]:
        if overwrite:
            raise ConfigError('jobs are added, never overwritten: write with .mode("append")')
        options = parse_options("write", self.options)
        assert isinstance(options, JobsWriteOptions | OutcomesWriteOptions)
        return options, resolve_address(options, creates=True)


def _job_columns(columns: str | None) -> StructType:
    names = None if columns is None else parse_names(columns)
    require_known("column", sorted(names or ()), schemas.JOBS.names)
    return schemas.jobs_schema(names)


def _missing_queue_message(options: ReadOptions, address: StoreAddress) -> str | None:
    if options.queue is None:
        return None
    return missing_queue_message(address, options.queue, dropped=isinstance(options, EventsOptions))


def _require_own_schema(requested: StructType, actual: StructType) -> None:
    # Even if only a type or a nullability differs: Spark would notice that only in its tasks.
    if requested != actual:
        raise ConfigError(
            f"this table has the columns {', '.join(actual.names)}: leave .schema(…) out, "
            "and choose columns with select"
        )
