"""`ackline worker`: run the handlers of queues, in one process or several."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ackline.cli.app import command
from ackline.cli.exits import USAGE, UsageError
from ackline.cli.options import log_format as logging_options
from ackline.cli.options import values
from ackline.cli.options.common import grace_option, targets_argument
from ackline.cli.options.metrics_endpoint import MetricsEndpoint
from ackline.cli.options.worker_targets import WorkerTargets, load_targets
from ackline.cli.output.text import pluralize, safe
from ackline.cli.session import Session
from ackline.logs import LogFormat
from ackline.queue import Queue
from ackline.worker.worker import warn_of_unused_middleware

if TYPE_CHECKING:
    from ackline.worker import Worker

logger = logging.getLogger("ackline")

T = TypeVar("T")

SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread yields to another, so that claims and heartbeats wait less."""


@command("worker")
@targets_argument
@click.option(
    "--queues",
    "names",
    metavar="NAMES",
    help="Serve only these queues of an app, such as email,images (default: all).",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=16,
    metavar="N",
    help="Maximum number of handlers running at the same time, per queue and process.",
)
@click.option(
    "--weights",
    type=values.weights,
    metavar="NUMBERS",
    help="Weight of each queue, in the order given, such as 3,1 (default: all equal).",
)
@click.option(
    "--processes", type=click.IntRange(min=1), default=1, metavar="N", help="Number of processes."
)
@grace_option
@click.option(
    "--heartbeat-ttl",
    type=values.seconds,
    default="10s",
    metavar="SPAN",
    help="How long without a heartbeat until others recover this worker's jobs.",
)
@click.option(
    "--maintenance/--no-maintenance",
    default=True,
    help="Run maintenance in this process: promote due jobs, recover leases, prune.",
)
@click.option(
    "--recovery/--no-recovery", default=True, help="Recover expired leases in this process."
)
@click.option(
    "--job-log/--no-job-log", default=True, help="Log failed attempts, and with -v every job."
)
@click.option("--verbose", "-v", is_flag=True, help="Log a line for each job.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve /metrics, /livez and /readyz on this port, for all processes.",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address on which to serve them (default: only this machine).",
)
@logging_options.format_option
@click.option("--id", hidden=True)
@click.option("--with-parent", is_flag=True, hidden=True)
@click.option("--metrics-folder", type=click.Path(path_type=Path), hidden=True)
def worker(
    session: Session,
    targets: tuple[str, ...],
    names: str | None,
    concurrency: int,
    weights: Any,
    processes: int,
    grace: float,
    heartbeat_ttl: float,
    maintenance: bool,
    recovery: bool,
    job_log: bool,
    verbose: bool,
    metrics_port: int | None,
    metrics_host: str,
    log_format: LogFormat,
    id: str | None,
    with_parent: bool,
    metrics_folder: Path | None,
) -> None:
    """Run the tasks of an app, or the handlers of queues.

    A target is a variable of a module: an App, a Queue, a Worker, or a function that returns one.

    SIGTERM or Ctrl-C stops it: running jobs may finish, all others are released.

    --store is passed to the module in the variable ACKLINE_STORE. If the store cannot be reached,
    the worker waits for it.

    ackline worker shop.jobs:app --queues email,images --processes 4
    ackline worker orders:paid orders:free --weights 3,1
    """
    log_options = logging_options.configure_session_logging(session, log_format, verbose=verbose)
    if session.common.store is not None:
        os.environ["ACKLINE_STORE"] = session.url
    if with_parent:
        _stop_with_parent()
    chosen = None if names is None else [name.strip() for name in names.split(",")]

    def load() -> WorkerTargets:
        loaded = _wait_for_store(lambda: load_targets(targets, chosen, debug=session.common.debug))
        _require_weights(loaded.queues, weights)
        if loaded.app is not None and not with_parent:
            warn_of_unused_middleware(loaded.app)
        return loaded

    endpoint = MetricsEndpoint(metrics_host, metrics_port, metrics_folder)
    if processes == 1:
        # Before the store is reached: until then, the process is alive, but not ready.
        with endpoint.of_one_process() as metrics:
            loaded = load()
            worker = loaded.worker or _new_worker(
                loaded,
                concurrency=concurrency,
                weights=weights,
                grace=grace,
                heartbeat_ttl=heartbeat_ttl,
                maintenance=maintenance,
                recovery=recovery,
                log_jobs=job_log,
            )
            worker.id = id or worker.id
            if metrics is not None:
                metrics.add(worker)
            _run(worker)
        return
    options = ["--concurrency", str(concurrency), "--grace", str(grace)]
    options += ["--heartbeat-ttl", str(heartbeat_ttl)]
    options += ["--weights", ",".join(map(str, weights))] if weights else []
    options += ["--maintenance" if maintenance else "--no-maintenance"]
    options += ["--recovery" if recovery else "--no-recovery"]
    options += ["--queues", names] if names is not None else []
    options += ["--job-log" if job_log else "--no-job-log"]
    options += ["--debug"] * session.common.debug + ["--verbose"] * verbose + log_options
    with endpoint.of_supervisor() as metrics_options:
        _supervise(load().queues, [*targets, *options, *metrics_options], processes, grace)


def _stop_with_parent() -> None:
    from ackline.worker.processes.child_process import stop_with_parent

    stop_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))


def _wait_for_store(act: Callable[[], T]) -> T:
    """Call `act` until the store can be reached; a module that failed is imported again."""
    from ackline.worker.startup_retry import retry_until_available

    # No job runs yet, so a signal may end the process.
    done = retry_until_available(act, threading.Event())
    assert done is not None
    return done


def _require_weights(queues: Sequence[Queue[Any, Any]], weights: Sequence[float] | None) -> None:
    if weights is not None and len(weights) != len(queues):
        raise UsageError(
            f"--weights has {pluralize(len(weights), 'number')} for "
            f"{pluralize(len(queues), 'queue')}: give one for each, in the same order"
        )


def _new_worker(loaded: WorkerTargets, **options: Any) -> Worker:
    from ackline.worker import Worker

    lifespan = None if loaded.app is None else loaded.app.lifespan_function
    return Worker(*loaded.queues, lifespan=lifespan, **options)


def _run(worker: Worker) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL)
    for queue in worker.queues:
        kinds = queue.handlers.kinds_to_claim
        names = "all kinds" if kinds is None else ", ".join(sorted(map(safe, kinds)))
        where = _wait_for_store(queue.store.info)
        logger.info("%s: handlers for %s; %s %s", queue.key, names, where.name, where.location)
    worker.run()


def _supervise(
    queues: Sequence[Queue[Any, Any]], arguments: Sequence[str], processes: int, grace: float
) -> None:
    from ackline.worker.processes.supervisor import Supervisor

    for queue in queues:
        if not queue.store.capabilities.shared:
            raise UsageError(
                f"queue {queue.key} is in a {queue.store.capabilities.name} store, which "
                "processes cannot share: use --processes 1, or a store on disk"
            )

    def command_for(id: str) -> list[str]:
        program = [sys.executable, "-m", "ackline", "worker"]
        return [*program, *arguments, "--id", id, "--with-parent"]

    logger.info("supervisor %d of %s", os.getpid(), pluralize(processes, "process", "processes"))
    Supervisor(
        queues, command_for, processes=processes, grace=grace, config_error_status=USAGE
    ).run()
    logger.info("supervisor %d stopped", os.getpid())
