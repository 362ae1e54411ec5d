"""Starting Spark for a command, with a store that all of its machines reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackline.cli.exits import UsageMistake
from ackline.cli.session import Session, file_of
from ackline.errors import MissingExtra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ackline.spark.place import Place


def require_shared_store(session: Session, master: str | None, shared_files: bool) -> None:
    """Refuse a store that the machines of a cluster cannot reach, before anything is started."""
    on_one = master is None or master.startswith("local")
    if not on_one and not shared_files and file_of(session.url) is not None:
        raise UsageMistake(
            f"{session.url} is a file, and {master} may be other machines: use redis:// or "
            "postgresql://, or add --shared-files if all of them see this file"
        )


def place_of(session: Session, shared_files: bool) -> Place:
    """The store as Spark's workers reach it."""
    from ackline.spark.options import Common
    from ackline.spark.place import find_place

    tenant = session.queues.tenant
    return find_place(
        Common(store=session.url, table="jobs", tenant=tenant, shared_files=shared_files)
    )


def start_spark(master: str | None) -> SparkSession:
    """Start Spark, or say what is missing."""
    try:
        from ackline.spark.session import spark_session
    except ModuleNotFoundError as error:
        raise MissingExtra(f"ackline pipeline (no module {error.name!r})", "spark") from error
    return spark_session(master)
