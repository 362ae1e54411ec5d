"""Before a command starts Spark: its options, what is checked, and Spark itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ackline.cli.exits import INTERRUPTED, Refusal, UsageMistake
from ackline.cli.session import Session
from ackline.cli.words import plain
from ackline.errors import MissingExtra
from ackline.stores.registry import file_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ackline.spark.store_address import StoreAddress

master_option = click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs: spark://host:7077, sc://host (Spark Connect) or local[N]. By "
    "default, on this machine.",
)

shared_files_option = click.option(
    "--shared-files",
    is_flag=True,
    help="Use a SQLite store on a cluster: all of its machines see the same files.",
)

lake_option = click.option(
    "--lake",
    required=True,
    metavar="PATH",
    help="The lake's folder, or a URL such as s3a://bucket/lake.",
)


def require_shared_store(session: Session, master: str | None, shared_files: bool) -> None:
    """Refuse a store that Spark's processes cannot reach, before anything is started."""
    require_extra()
    from ackline.spark.store_address import require_many_processes

    require_many_processes(session.url)
    if file_of(session.url) is not None:
        require_shared_file(session.url, master, shared_files)


def require_shared_file(file: str, master: str | None, shared_files: bool) -> None:
    """Refuse a store that is a file, unless all machines of the cluster see it."""
    from ackline.spark.store_address import require_one_machine

    if not shared_files:
        require_one_machine(file, master, "add --shared-files")


def notice_empty(session: Session) -> bool:
    """Warn of a tenant without queues, whose name may be mistyped; returns whether it is one.

    A queue that was dropped counts while its journal is kept.
    """
    queues = session.queues
    if queues.store.describe(queues.tenant, dropped=True):
        return False
    tenants = sorted({info.key.tenant for info in queues.store.describe(None)})
    others = f"; there are: {', '.join(map(plain, tenants))}" if tenants else ""
    session.notice(f"tenant {plain(session.tenant)} has no queues yet{others}", "yellow")
    return True


def address_of(session: Session, shared_files: bool) -> StoreAddress:
    """The store as Spark's workers reach it."""
    from ackline.spark.options import Common
    from ackline.spark.store_address import find_address

    tenant = session.queues.tenant
    return find_address(
        Common(store=session.url, table="jobs", tenant=tenant, shared_files=shared_files)
    )


def require_extra() -> None:
    """Say what to install, if Spark is not."""
    try:
        import ackline.spark.session  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra(f"ackline pipeline (no module {error.name!r})", "spark") from error


def start_spark(session: Session, master: str | None) -> SparkSession:
    """Start Spark, or say what is missing; it takes seconds, so a terminal shows a notice."""
    require_extra()
    from ackline.spark.ctrl_c import CtrlC
    from ackline.spark.session import spark_session

    if session.notices.is_terminal:
        session.notice(f"starting Spark{f' on {master}' if master else ''} …")
    ctrl_c = CtrlC()
    try:
        with ctrl_c.heard():
            return spark_session(master, muted=lambda: ctrl_c.pressed)
    except KeyboardInterrupt:
        raise Refusal("stopped while Spark was starting: nothing was done", INTERRUPTED) from None


def require_writable(*paths: str | None) -> None:
    """Refuse a folder of this machine that cannot be written to; None is none."""
    from ackline.spark.paths import absolute, is_local

    for path in paths:
        if path is not None and is_local(path):
            _require_writable(path, Path(absolute(path)))


def _require_writable(named: str, folder: Path) -> None:
    there = next(above for above in (folder, *folder.parents) if above.exists())
    if not there.is_dir():
        raise _unwritable(named, f"{there} is a file")
    try:
        if there != folder:
            # Only a try tells: in some places nobody can make a folder, whatever their mode.
            os.rmdir(tempfile.mkdtemp(prefix=".ackline-", dir=there))
    except OSError as error:
        raise _unwritable(named, f"{there}: {error.strerror}") from None
    if not os.access(there, os.W_OK | os.X_OK):
        raise _unwritable(named, f"{there}: Permission denied")


def _unwritable(named: str, why: str) -> UsageMistake:
    return UsageMistake(f"cannot write to {plain(named)}: {plain(why)}; name another folder")


def require_file_place(file: Path) -> None:
    """Refuse a file that cannot be written."""
    if file.is_dir():
        raise UsageMistake(f"{plain(str(file))} is a folder: name a file in it")
    if not file.parent.is_dir():
        raise UsageMistake(
            f"cannot write {plain(str(file))}: there is no folder {plain(str(file.parent))}; make "
            "it, or name another file"
        )
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageMistake(f"cannot write {plain(str(file))}: Permission denied; name another file")


def require_files(paths: Iterable[str], master: str | None) -> None:
    """Refuse files that do not exist, and those that Spark would not read."""
    from ackline.spark.bulk.files import require_plain
    from ackline.spark.lake.folder import is_pattern
    from ackline.spark.paths import absolute, is_local

    for path in paths:
        require_plain(path)
        # Spark Connect reads files of the server's machine.
        elsewhere = (master or "").startswith("sc://") or not is_local(path)
        if not (elsewhere or is_pattern(path) or os.path.exists(absolute(path))):
            raise UsageMistake(f"there is no file {plain(path)}: is the path right?")
