"""`ackline pipeline work` and `stop`: a queue's handlers on Spark's executors."""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackline.cli import values
from ackline.cli.app import command
from ackline.cli.pipeline.errors import ending
from ackline.cli.pipeline.group import PIPELINE, pipeline
from ackline.cli.pipeline.options import MasterOption, SharedFilesOption
from ackline.cli.pipeline.starting import require_shared_file, start_spark
from ackline.cli.session import Session
from ackline.cli.tables import new_table
from ackline.cli.targets import load_queues
from ackline.cli.words import count, plain
from ackline.worker.signals import hear_signals

if TYPE_CHECKING:
    from ackline.spark.fleet.stop_flag import StopFlag

TargetsArgument = Annotated[
    list[str],
    typer.Argument(metavar="MODULE:QUEUE...", help="Queues with handlers, as Python names them."),
]
NameOption = Annotated[
    str, typer.Option("--name", help="Of the fleet: by it, it is stopped from elsewhere.")
]


@command("work", panel=PIPELINE, group=pipeline)
def work(
    session: Session,
    targets: TargetsArgument,
    executors: Annotated[int, typer.Option(metavar="N", min=1, help="How many workers.")] = 2,
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=1, help="Handlers at once, in each.")
    ] = 16,
    name: NameOption = "fleet",
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="End when nothing waits or runs any more.")
    ] = False,
    grace: Annotated[
        float,
        typer.Option(
            parser=values.seconds, metavar="SPAN", help="How long running jobs may go on at a stop."
        ),
    ] = 30.0,
    master: MasterOption = None,
    shared_files: SharedFilesOption = False,
) -> None:
    """Run the handlers of a module's queues on Spark's executors.

    Each executor is a worker like any other. Ctrl-C or SIGTERM stops them, as does
    `ackline pipeline stop`: running jobs may end, the rest is given back. The module must be
    there for all executors, and open a store that they reach; --store reaches it as ACKLINE_STORE.

    ackline pipeline work examples.email_worker:queue --executors 8
    """
    from ackline.spark.place import absolute_url, files_of

    named = session.common.store or os.environ.get("ACKLINE_STORE")
    environment = {"ACKLINE_STORE": absolute_url(session.url)} if named else {}
    os.environ.update(environment)
    load = functools.partial(load_queues, targets)
    queues = load()
    for file in files_of(queues):
        require_shared_file(file, master, shared_files)
    # Lost tasks are started anew: on one machine Spark does so only if it is told to.
    spark = start_spark(master or f"local[{executors},4]")
    from ackline.spark.fleet.fleet import Fleet
    from ackline.spark.fleet.running import run_fleet
    from ackline.spark.fleet.stop_flag import StopFlag

    fleet = Fleet(
        name=name,
        executors=executors,
        concurrency=concurrency,
        grace=grace,
        until_empty=until_empty,
        environment=environment,
        shared_files=shared_files,
    )
    with ending(spark):
        served = _until_done(session, StopFlag(queues, name), lambda: run_fleet(spark, load, fleet))
    _tell(session, served)


@command("stop", panel=PIPELINE, group=pipeline)
def stop(session: Session, targets: TargetsArgument, name: NameOption = "fleet") -> None:
    """Ask a fleet to stop: running jobs may end, the rest is given back."""
    if session.common.store is not None:
        os.environ["ACKLINE_STORE"] = session.url
    from ackline.spark.fleet.stop_flag import StopFlag

    StopFlag(load_queues(targets), name).hoist()
    session.say(f"The fleet {plain(name)} was asked to stop.")


def _until_done(session: Session, flag: StopFlag, act: Any) -> Any:
    """Wait for the fleet; the first signal asks it to stop, and it is waited for."""
    done: dict[str, Any] = {}

    def run() -> None:
        try:
            done["served"] = act()
        except BaseException as error:
            done["error"] = error

    def ask(_number: int) -> None:
        session.notice("stopping: running jobs may end")
        flag.hoist()

    deafen = hear_signals(ask)
    try:
        thread = threading.Thread(target=run, name="ackline fleet", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.2)
    finally:
        deafen()
    if "error" in done:
        raise done["error"]
    return done["served"]


def _tell(session: Session, served: Any) -> None:
    if session.json:
        session.document({"workers": served})
        return
    table = new_table("worker", "ended", "failed", right=2, spare=[("worker", 12)], fold=["worker"])
    for one in served:
        table.add_row(plain(one.worker), f"{one.ended:,}", f"{one.failed:,}")
    session.say(table)
    total = sum(one.ended + one.failed for one in served)
    # A job that is retried is delivered more than once.
    session.say(
        f"{count(total, 'delivery', 'deliveries')} handled by {count(len(served), 'worker')}"
    )
