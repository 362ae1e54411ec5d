"""The options and checks that come before Spark, and the start of Spark."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ackline.cli.exits import INTERRUPTED, CommandError, UsageError
from ackline.cli.output.text import safe
from ackline.cli.session import Session
from ackline.core.errors import MissingExtra
from ackline.stores.registry import sqlite_file_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ackline.spark.store.address import StoreAddress

master_option = click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs: spark://host:7077, sc://host (Spark Connect) or local[N] (default: "
    "this machine).",
)

shared_files_option = click.option(
    "--shared-files",
    is_flag=True,
    help="Allow a SQLite store on a cluster, because all of its machines see the same files.",
)

lake_option = click.option(
    "--lake",
    required=True,
    metavar="PATH",
    help="The lake's folder, or a URL such as s3a://bucket/lake.",
)


def require_shared_store(session: Session, master: str | None, shared_files: bool) -> None:
    """Raise if Spark's processes cannot reach the store, before anything is started."""
    require_spark()
    from ackline.spark.store.address import require_multiprocess_store

    require_multiprocess_store(session.url)
    if sqlite_file_of(session.url) is not None:
        require_shared_file(session.url, master, shared_files)


def require_shared_file(file: str, master: str | None, shared_files: bool) -> None:
    """Raise if the store is a file that the machines of the cluster do not share."""
    from ackline.spark.store.address import require_local_master

    if not shared_files:
        require_local_master(file, master, "add --shared-files")


def warn_if_no_queues(session: Session) -> bool:
    """Warn if the tenant has no queues, as when its name is mistyped; returns whether it has none.

    A dropped queue counts while its journal is kept.
    """
    queues = session.queues
    if queues.store.describe(queues.tenant, include_dropped=True):
        return False
    tenants = sorted({info.key.tenant for info in queues.store.describe(None)})
    others = f"; existing tenants: {', '.join(map(safe, tenants))}" if tenants else ""
    session.notice(f"tenant {safe(session.tenant)} has no queues yet{others}", "yellow")
    return True


def store_address(session: Session, shared_files: bool) -> StoreAddress:
    """The store as Spark's workers reach it."""
    from ackline.spark.options import CommonOptions
    from ackline.spark.store.address import resolve_address

    tenant = session.queues.tenant
    return resolve_address(
        CommonOptions(store=session.url, table="jobs", tenant=tenant, shared_files=shared_files)
    )


def require_spark() -> None:
    """Raise if Spark is not installed."""
    try:
        import ackline.spark.runtime.session  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra(f"ackline pipeline (no module {error.name!r})", "spark") from error


def start_spark(session: Session, master: str | None) -> SparkSession:
    """Start Spark; it takes seconds, so a terminal shows a notice."""
    require_spark()
    from ackline.spark.runtime.interrupts import InterruptHandler
    from ackline.spark.runtime.session import spark_session

    if session.notices.is_terminal:
        session.notice(f"starting Spark{f' on {master}' if master else ''} …")
    interrupts = InterruptHandler()
    try:
        with interrupts.installed():
            return spark_session(master, muted=lambda: interrupts.pressed)
    except KeyboardInterrupt:
        raise CommandError(
            "stopped while Spark was starting: nothing was done", INTERRUPTED
        ) from None


def require_writable(*paths: str | None) -> None:
    """Raise if a local folder cannot be written to; None is skipped."""
    from ackline.spark.paths import absolute_path, is_local

    for path in paths:
        if path is not None and is_local(path):
            _require_writable(path, Path(absolute_path(path)))


def _require_writable(name: str, folder: Path) -> None:
    existing = next(above for above in (folder, *folder.parents) if above.exists())
    if not existing.is_dir():
        raise _unwritable(name, f"{existing} is a file")
    try:
        if existing != folder:
            # Only trying shows it: some file systems allow no new folders, whatever their mode.
            os.rmdir(tempfile.mkdtemp(prefix=".ackline-", dir=existing))
    except OSError as error:
        raise _unwritable(name, f"{existing}: {error.strerror}") from None
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _unwritable(name, f"{existing}: Permission denied")


def _unwritable(name: str, reason: str) -> UsageError:
    return UsageError(f"cannot write to {safe(name)}: {safe(reason)}; choose another folder")


def require_writable_file(file: Path) -> None:
    """Raise if a file cannot be written."""
    if file.is_dir():
        raise UsageError(f"{safe(str(file))} is a folder: choose a file in it")
    if not file.parent.is_dir():
        raise UsageError(
            f"cannot write {safe(str(file))}: there is no folder {safe(str(file.parent))}; "
            "create it, or choose another file"
        )
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageError(f"cannot write {safe(str(file))}: Permission denied; choose another file")


def require_files(paths: Iterable[str], master: str | None) -> None:
    """Raise if a file does not exist, or if Spark would not read it."""
    from ackline.spark.bulk.input_files import require_literal_path
    from ackline.spark.lake.folder import is_pattern
    from ackline.spark.paths import absolute_path, is_local

    for path in paths:
        require_literal_path(path)
        # Spark Connect reads files of the server's machine.
        elsewhere = (master or "").startswith("sc://") or not is_local(path)
        if not (elsewhere or is_pattern(path) or os.path.exists(absolute_path(path))):
            raise UsageError(f"no such file: {safe(path)}")
