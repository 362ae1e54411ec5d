"""Starting Spark for a command, with a store that all of Spark's machines reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackline.cli.exits import INTERRUPTED, Refusal
from ackline.cli.session import Session
from ackline.cli.words import plain
from ackline.errors import MissingExtra
from ackline.stores.registry import file_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ackline.spark.store_address import StoreAddress


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
