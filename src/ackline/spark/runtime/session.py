"""Starts Spark for a command, on this machine or on a `--master`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib.resources import files

import pyspark
from pyspark.sql import SparkSession

from ackline.spark.java import require_java
from ackline.spark.runtime.stderr_filter import filtered_stderr
from ackline.spark.version import require_spark

UNCHECKED_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Disables Arrow's checks of each access, which take a twentieth of the time of reading a table;
Spark knows how many values Python has sent."""

LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    # The default starts a process for each file to set its mode, which is twenty times as slow.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""Settings for one machine: no ports for others, and fewer than 200 shuffle partitions."""

COMMON_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # Recording which line of Python wrote each expression takes half of the driver's time.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Other readers of Parquet know this type; Spark's default is its own INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # With sketches of more groups than the default of 128, Spark would sort first.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "2000",
}

SILENCED_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers that print errors that are raised anyway."""


def spark_session(
    master: str | None = None,
    *,
    name: str = "ackline",
    settings: Mapping[str, str] | None = None,
    muted: Callable[[], bool] = lambda: False,
) -> SparkSession:
    """Start Spark, or say what is missing; `master` is `local[*]` by default.

    When `muted` returns true, Java's standard error is no longer shown.
    """
    require_spark(pyspark.__version__)
    master = master or "local[*]"
    local, remote = master.startswith("local"), master.startswith("sc://")
    if not remote:
        require_java()
    if local:
        # Spark looks up the machine's name, and warns if it is a loopback address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers must run this Python, in which the packages are installed; Spark also looks for
        # data sources with it.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    config = (
        COMMON_SETTINGS | (LOCAL_SETTINGS | _java_options() if local else {}) | dict(settings or {})
    )
    builder = SparkSession.builder.appName(name)
    builder = builder.remote(master) if remote else builder.master(master)
    for key, value in config.items():
        builder = builder.config(key, value)
    for log in SILENCED_LOGGERS:
        logging.getLogger(log).setLevel(logging.CRITICAL)
    with nullcontext() if remote else filtered_stderr(muted):
        session = builder.getOrCreate()
    if not remote:
        session.sparkContext.setLogLevel("ERROR")
    return session


def _java_options() -> dict[str, str]:
    """Java's options; one limits Java's own log to errors, from its first line on."""
    log = files("ackline.spark").joinpath("log4j2.properties")
    # Not `extraJavaOptions`: those are for the user, and Spark adds them to these.
    options = f"{UNCHECKED_ARROW} -Dlog4j2.configurationFile={log}"
    return {"spark.driver.defaultJavaOptions": options}
