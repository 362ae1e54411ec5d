"""Exports jobs or the journal to files."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.errors import ConfigError
from ackline.spark.bulk.export_folder import ExportFolder
from ackline.spark.bulk.input_files import first_line
from ackline.spark.store.address import StoreAddress


def read_table(spark: SparkSession, address: StoreAddress, table: str) -> DataFrame:
    """A table of the store."""
    reader = (
        spark.read.format("ackline").option("store", address.url).option("tenant", address.tenant)
    )
    return reader.option("sharedFiles", address.shared_files).load(table)


def payloads_as_text(rows: DataFrame) -> DataFrame:
    """Payloads and results as text: JSON unchanged, all else as an object with its `base64`."""
    if "codec" not in rows.columns:
        return rows
    # The codec of a result is not recorded, and may differ from that of the payload.
    result_is_json = F.get_json_object(_valid_text("result"), "$").isNotNull()
    return rows.withColumns(
        {
            "payload": _json_or_base64("payload", _valid_text("payload").isNotNull()),
            "result": _json_or_base64("result", result_is_json),
        }
    )


def _valid_text(name: str) -> Column:
    return F.try_validate_utf8(F.col(name).cast("string"))


def _json_or_base64(name: str, is_json: Column) -> Column:
    packed = F.to_json(F.struct(F.base64(name).alias("base64")))
    text = F.when((F.col("codec") == "json") & is_json, _valid_text(name)).otherwise(packed)
    return F.when(F.col(name).isNotNull(), text)


def filter_rows(rows: DataFrame, where: str | None) -> DataFrame:
    """The rows that match a condition; an error in it is reported before anything runs."""
    if where is None:
        return rows
    try:
        return rows.where(where)
    except PySparkException as error:
        known = ", ".join(rows.columns)
        raise ConfigError(
            f"invalid --where: {first_line(error)}\nThe columns are {known}"
        ) from None


def export_rows(rows: DataFrame, path: str, format: str, *, overwrite: bool) -> int:
    """Write rows as Parquet or JSON lines; returns how many."""
    folder = ExportFolder(path)
    if folder.exists() and not overwrite:
        raise ConfigError(f"{path} exists already: name another folder, or add --overwrite")
    with folder.replacing() as new:
        return _write(rows, new, format)


def _write(rows: DataFrame, path: str, format: str) -> int:
    # Counted while they are written: reading the store again may give other rows.
    counted = Observation()
    seen = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    seen.write.format(format).save(path)
    written = int(counted.get["rows"])
    require_all_rows(rows, path, format, written)
    return written


def require_all_rows(rows: DataFrame, path: str, format: str, written: int) -> None:
    """Refuse an export that lacks rows: Spark does not notice if files are removed meanwhile."""
    reader = rows.sparkSession.read
    # In JSON, each line is a row.
    table = reader.text(path) if format == "json" else reader.schema(rows.schema).parquet(path)
    if (found := table.count()) != written:
        raise ConfigError(
            f"the files have {found:,} rows, but {written:,} were written: some files were removed "
            "meanwhile. Export again"
        )
