"""`ackline pipeline work` and `stop`: run handlers on Spark's executors."""

from __future__ import annotations

import functools
import math
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

import click

from ackline.cli.app import command
from ackline.cli.exits import CommandError
from ackline.cli.options.common import grace_option, targets_argument
from ackline.cli.options.worker_targets import load_targets
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import pluralize, safe
from ackline.cli.pipeline import pipeline
from ackline.cli.pipeline.preflight import (
    master_option,
    require_shared_file,
    require_spark,
    shared_files_option,
    start_spark,
)
from ackline.cli.pipeline.spark_errors import stopping_spark
from ackline.cli.session import Session
from ackline.core.errors import StoreError
from ackline.queue import Queue
from ackline.worker.processes.stop_signals import handle_stop_signals

if TYPE_CHECKING:
    from ackline.spark.fleet.fleet import Served
    from ackline.spark.fleet.stop_flag import StopFlag

POLL_INTERVAL = 0.2
"""Seconds between two checks for a signal."""

UNFINISHED_JOBS = "unfinished jobs are delivered again when their leases expire"

name_option = click.option("--name", default="fleet", help="The fleet's name, for `pipeline stop`.")


@command("work", group=pipeline)
@targets_argument
@click.option(
    "--executors",
    type=click.IntRange(min=1),
    default=2,
    metavar="N",
    help="Number of workers; each takes a slot of a Spark executor.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=16,
    metavar="N",
    help="Maximum number of handlers running at the same time, per worker.",
)
@name_option
@click.option(
    "--until-empty",
    is_flag=True,
    help="Stop when no job of the handlers' kinds is left; jobs of other kinds are reported.",
)
@grace_option
@master_option
@shared_files_option
def work(
    session: Session,
    targets: tuple[str, ...],
    executors: int,
    concurrency: int,
    name: str,
    until_empty: bool,
    grace: float,
    master: str | None,
    shared_files: bool,
) -> None:
    """Run the handlers of queues on Spark's executors.

    Ctrl-C, SIGTERM or `ackline pipeline stop` stops the workers: running jobs may finish, all
    others are released. A second Ctrl-C stops them immediately. The module must be installed on
    all executors, and open a store that they can reach; --store is passed to it in the variable
    ACKLINE_STORE.

    ackline pipeline work examples.email_worker:queue --executors 8
    """
    require_spark()
    from ackline.spark.fleet.fleet import Fleet
    from ackline.spark.fleet.running import require_shared, run_fleet
    from ackline.spark.fleet.stop_flag import StopFlag
    from ackline.spark.store.address import absolute_url, store_files

    named = session.common.store or os.environ.get("ACKLINE_STORE")
    environment = {"ACKLINE_STORE": absolute_url(session.url)} if named else {}
    os.environ.update(environment)
    load = functools.partial(_load_queues, targets)
    queues = load()
    require_shared(queues)
    for file in store_files(queues):
        require_shared_file(file, master, shared_files)
    flag = StopFlag(queues, name)
    fleet = Fleet(
        name=name,
        executors=executors,
        concurrency=concurrency,
        grace=grace,
        until_empty=until_empty,
        environment=environment,
        shared_files=shared_files,
        # Read before Spark starts, so that a stop requested meanwhile is for this fleet.
        asked_before=flag.says(),
    )
    # With `,4`, Spark restarts failed tasks on a single machine, too.
    spark = start_spark(session, master or f"local[{executors},4]")
    with stopping_spark(spark, UNFINISHED_JOBS):
        served = _until_done(StopRequests(session, flag), lambda: run_fleet(spark, load, fleet))
    _print_served(session, served)


@command("stop", group=pipeline)
@targets_argument
@name_option
def stop(session: Session, targets: tuple[str, ...], name: str) -> None:
    """Stop a fleet: running jobs may finish, all others are released.

    Run it on any machine that can reach the store, with the queues and --name of the fleet. A
    fleet that is still starting stops as well. Exits with 1 if the fleet has no known workers.

    ackline pipeline stop examples.email_worker:queue
    """
    if session.common.store is not None:
        os.environ["ACKLINE_STORE"] = session.url
    from ackline.spark.fleet.stop_flag import StopFlag
    from ackline.spark.worker_names import fleets_at_work

    queues = _load_queues(targets)
    known = fleets_at_work(queues)
    # Even if none is known: its workers may not have started yet.
    StopFlag(queues, name).hoist()
    if session.json:
        session.print_json({"fleet": name, "workers": known[name]})
    elif known[name]:
        session.print(f"{pluralize(known[name], 'worker')} of fleet {safe(name)} asked to stop.")
    if not known[name]:
        raise CommandError(_unknown_fleet_message(name, known, targets))


def _load_queues(targets: Sequence[str]) -> Sequence[Queue[Any, Any]]:
    return load_targets(targets).queues


def _unknown_fleet_message(name: str, known: Iterable[str], targets: Iterable[str]) -> str:
    others = ", ".join(safe(f"--name {shlex.quote(other)}") for other in sorted(known))
    return (
        f"no fleet {safe(name)!r} has workers on {', '.join(targets)}; "
        + (f"known fleets: {others}" if others else "nor has any other")
        + ". If it is still starting, it will stop."
    )


def _until_done(requests: StopRequests, act: Callable[[], list[Served]]) -> list[Served]:
    """Run the fleet in a thread, because only the main thread receives signals."""
    running: Future[list[Served]] = Future()

    def run() -> None:
        try:
            running.set_result(act())
        except BaseException as error:
            running.set_exception(error)

    restore_signals = handle_stop_signals(requests.on_signal)
    try:
        threading.Thread(target=run, name="ackline fleet", daemon=True).start()
        while not requests.immediate.is_set():
            wait([running], POLL_INTERVAL)
            if running.done():
                return running.result()
    finally:
        restore_signals()
    # Its handler stops Java, unless SIGINT is ignored.
    signal.raise_signal(signal.SIGINT)
    raise KeyboardInterrupt


class StopRequests:
    """Signals that stop a fleet: the first by its stop flag, the second immediately."""

    def __init__(self, session: Session, flag: StopFlag) -> None:
        self.immediate = threading.Event()
        self._session = session
        self._flag = flag
        self._requested = False

    def on_signal(self, _number: int) -> None:
        """Handle a signal."""
        if self._requested:
            self.immediate.set()
            return
        self._requested = True
        self._session.notice(
            "stopping: running jobs may finish; a second signal stops them immediately"
        )
        # In a thread, so that a second signal works even if the store cannot be reached.
        threading.Thread(target=self._request_stop, name="ackline stop", daemon=True).start()

    def _request_stop(self) -> None:
        from ackline.spark.store.retry import retry_transient

        try:
            retry_transient(self._flag.hoist, math.inf)
        except StoreError as error:
            self._session.notice(f"cannot request the stop of the fleet: {error}", "red")


def _print_served(session: Session, served: list[Served]) -> None:
    if session.json:
        session.print_json({"workers": served})
        return
    table = new_table(
        "worker", "ended", "failed", right=2, shrinkable=[("worker", 12)], fold=["worker"]
    )
    for worker in served:
        table.add_row(safe(worker.worker), f"{worker.ended:,}", f"{worker.failed:,}")
    session.print(table)
    total = sum(worker.ended + worker.failed for worker in served)
    # A retried job is delivered more than once.
    session.print(
        f"{pluralize(total, 'delivery', 'deliveries')} handled by "
        f"{pluralize(len(served), 'worker')}"
    )
