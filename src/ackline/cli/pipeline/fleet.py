"""`ackline pipeline work` and `stop`: a queue's handlers on Spark's executors."""

from __future__ import annotations

import functools
import math
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

import click

from ackline.cli.app import command
from ackline.cli.exits import CommandError
from ackline.cli.options.common import grace_option, targets_argument
from ackline.cli.options.queue_targets import load_queues
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
from ackline.worker.processes.stop_signals import handle_stop_signals

if TYPE_CHECKING:
    from ackline.spark.fleet.fleet import Served
    from ackline.spark.fleet.stop_flag import StopFlag

POLL_INTERVAL = 0.2
"""Seconds between two checks for a signal."""

UNFINISHED_JOBS = "what its workers held is delivered again when the leases lapse"

name_option = click.option(
    "--name", default="fleet", help="The fleet's name, by which `pipeline stop` finds it."
)


@command("work", group=pipeline)
@targets_argument
@click.option(
    "--executors",
    type=click.IntRange(min=1),
    default=2,
    metavar="N",
    help="How many workers, each in a slot of Spark's.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=16,
    metavar="N",
    help="Handlers at once in each worker.",
)
@name_option
@click.option(
    "--until-empty",
    is_flag=True,
    help="End when no job is left that the handlers are for; jobs of other kinds are told.",
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
    """Run the handlers of a module's queues on Spark's executors.

    Each is a worker like any other. Ctrl-C or SIGTERM stops them, as does `ackline pipeline
    stop`: running jobs may end, the rest is given back. A second Ctrl-C ends them at once. The
    module must be installed for all executors, and open a store that they reach; it finds --store
    in the variable ACKLINE_STORE.

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
    load = functools.partial(load_queues, targets)
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
        # Before Spark starts, which takes a while: a stop asked for meanwhile is for this fleet.
        asked_before=flag.says(),
    )
    # With `,4`, Spark starts lost tasks anew also on one machine.
    spark = start_spark(session, master or f"local[{executors},4]")
    with stopping_spark(spark, UNFINISHED_JOBS):
        served = _until_done(StopRequests(session, flag), lambda: run_fleet(spark, load, fleet))
    _print_served(session, served)


@command("stop", group=pipeline)
@targets_argument
@name_option
def stop(session: Session, targets: tuple[str, ...], name: str) -> None:
    """Ask a fleet to stop: running jobs may end, the rest is given back.

    It may run on any machine that reaches the store, with the queues and --name of the fleet. A
    fleet that is only starting stops as well. Exits with 1 if no worker of the fleet is known.

    ackline pipeline stop examples.email_worker:queue
    """
    if session.common.store is not None:
        os.environ["ACKLINE_STORE"] = session.url
    from ackline.spark.fleet.stop_flag import StopFlag
    from ackline.spark.worker_names import fleets_at_work

    queues = load_queues(targets)
    known = fleets_at_work(queues)
    # Even if none is known: its workers may not have begun yet.
    StopFlag(queues, name).hoist()
    if session.json:
        session.print_json({"fleet": name, "workers": known[name]})
    elif known[name]:
        session.print(f"{pluralize(known[name], 'worker')} of fleet {safe(name)} asked to stop.")
    if not known[name]:
        raise CommandError(_unknown_fleet_message(name, known, targets))


def _unknown_fleet_message(name: str, known: Iterable[str], targets: Iterable[str]) -> str:
    others = ", ".join(safe(f"--name {shlex.quote(other)}") for other in sorted(known))
    return (
        f"no fleet {safe(name)!r} is known to work on {', '.join(targets)}; "
        + (f"there is {others}" if others else "nor is any other")
        + ". If it is only starting, it stops."
    )


def _until_done(requests: StopRequests, act: Callable[[], list[Served]]) -> list[Served]:
    """Wait for the fleet in the main thread, because only there signals are heard."""
    doing: Future[list[Served]] = Future()

    def run() -> None:
        try:
            doing.set_result(act())
        except BaseException as error:
            doing.set_exception(error)

    deafen = handle_stop_signals(requests.on_signal)
    try:
        threading.Thread(target=run, name="ackline fleet", daemon=True).start()
        while not requests.at_once.is_set():
            wait([doing], POLL_INTERVAL)
            if doing.done():
                return doing.result()
    finally:
        deafen()
    # Its handler ends Java; while it is ignored, there is none.
    signal.raise_signal(signal.SIGINT)
    raise KeyboardInterrupt


class StopRequests:
    """Signals that ask a fleet to stop: the first by its flag, the second at once."""

    def __init__(self, session: Session, flag: StopFlag) -> None:
        self.at_once = threading.Event()
        self._session = session
        self._flag = flag
        self._asked = False

    def on_signal(self, _number: int) -> None:
        """Handle a signal."""
        if self._asked:
            self.at_once.set()
            return
        self._asked = True
        self._session.notice("stopping: running jobs may end; a second signal ends them at once")
        # In a thread, so that a second signal is heard even if the store cannot be reached.
        threading.Thread(target=self._request_stop, name="ackline stop", daemon=True).start()

    def _request_stop(self) -> None:
        from ackline.spark.store.retry import retry_transient

        try:
            retry_transient(self._flag.hoist, math.inf)
        except StoreError as error:
            self._session.notice(f"the fleet could not be asked to stop: {error}", "red")


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
    # A job that is retried is delivered more than once.
    session.print(
        f"{pluralize(total, 'delivery', 'deliveries')} handled by "
        f"{pluralize(len(served), 'worker')}"
    )
