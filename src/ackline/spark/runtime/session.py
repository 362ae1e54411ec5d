"""Starting Spark from a command: on this machine, or where `--master` says."""

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
"""Without Arrow's checks of each access. Spark knows how many values Python has sent, and checking
that again for each value takes a twentieth of the time of reading a table."""

LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    # The default starts a program for each file, to set the file's mode: twenty times as slow.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""On one machine, nothing listens for others, and 200 shuffle partitions are too many."""

COMMON_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # Recording which line of Python wrote each expression takes half of the driver's time.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Other readers of Parquet know this type; Spark's default is an old one of its own.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # With sketches of more groups than the default of 128, Spark would sort first.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "2000",
}

SILENCED_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers that print in full what is raised anyway."""


def spark_session(
    master: str | None = None,
    *,
    name: str = "ackline",
    settings: Mapping[str, str] | None = None,
    muted: Callable[[], bool] = lambda: False,
) -> SparkSession:
    """Start Spark, or say what is missing; `master` is `local[*]` by default.

    As soon as `muted` says so, Java's standard error is not shown any more.
    """
    require_spark(pyspark.__version__)
    master = master or "local[*]"
    local, remote = master.startswith("local"), master.startswith("sc://")
    if not remote:
        require_java()
    if local:
        # Spark looks up the machine's name, and warns if it is a loopback address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers must run this Python, because the packages are installed here. Without this,
        # Spark would not look for formats with it either.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = (
        COMMON_SETTINGS | (LOCAL_SETTINGS | _java_options() if local else {}) | dict(settings or {})
    )
    builder = SparkSession.builder.appName(name)
    builder = builder.remote(master) if remote else builder.master(master)
    for key, value in chosen.items():
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
