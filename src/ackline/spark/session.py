"""Starting Spark from a command: on this machine, or where `--master` says."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from importlib.resources import files

import pyspark
from pyspark.sql import SparkSession

from ackline.spark.java import require_java
from ackline.spark.noise import without_noise
from ackline.spark.version import require_spark

UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Spark knows how many values Python has sent. That Arrow checks it again for each one that is
taken out costs a twentieth of the time in which a table is read."""

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    # Its default starts a program for each file, to set the file's mode: twenty times as slow.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""On one machine nothing listens beyond it, and two hundred parts are too many."""

ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # To note for each expression which line of Python wrote it takes half of the driver's time.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # What other readers of Parquet know; Spark's own default is its form of long ago.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Sketches of more groups than its default of 128 would be made by sorting first.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "2000",
}

QUIET = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""They print in full what is raised anyway."""


def spark_session(
    master: str | None = None, *, name: str = "ackline", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or say what is missing; `master` is `local[*]` by default."""
    require_spark(pyspark.__version__)
    master = master or "local[*]"
    local, remote = master.startswith("local"), master.startswith("sc://")
    if not remote:
        require_java()
    if local:
        # Spark looks up the machine's name, and warns if it is a loopback address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers must be this Python, for the packages are installed here. Only by this Spark
        # also looks for formats with it.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = ALWAYS | (LOCAL | _java_options() if local else {}) | dict(settings or {})
    builder = SparkSession.builder.appName(name)
    builder = builder.remote(master) if remote else builder.master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    for log in QUIET:
        logging.getLogger(log).setLevel(logging.CRITICAL)
    with without_noise() if local else nullcontext():
        session = builder.getOrCreate()
    if not remote:
        session.sparkContext.setLogLevel("ERROR")
    return session


def _java_options() -> dict[str, str]:
    """Among them that Java's own log has only errors, from its first line on."""
    log = files("ackline.spark").joinpath("log4j2.properties")
    # Not the `extraJavaOptions`: what somebody has configured there is added to these.
    options = f"{UNCHECKED} -Dlog4j2.configurationFile={log}"
    return {"spark.driver.defaultJavaOptions": options}
