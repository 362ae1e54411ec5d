"""`ackline worker`: run the handlers of a module's queues, in one process or several."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ackline.cli.app import command
from ackline.cli.exits import UsageError
from ackline.cli.options import log_format as logging_options
from ackline.cli.options import values
from ackline.cli.options.common import grace_option, targets_argument
from ackline.cli.options.queue_targets import load_queues
from ackline.cli.output.text import pluralize, safe
from ackline.cli.session import Session
from ackline.logs import LogFormat
from ackline.queue import Job, Queue

logger = logging.getLogger("ackline")

T = TypeVar("T")

SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread yields to another: claims and heartbeats must not wait long."""


@command("worker")
@targets_argument
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=16,
    metavar="N",
    help="Handlers at once, for each queue and process.",
)
@click.option(
    "--weights",
    type=values.weights,
    metavar="NUMBERS",
    help="Shares of the queues, in their order, such as 3,1; equal by default.",
)
@click.option(
    "--processes", type=click.IntRange(min=1), default=1, metavar="N", help="How many processes."
)
@grace_option
@click.option(
    "--maintenance/--no-maintenance",
    default=True,
    help="Promote, sweep and prune in this process too.",
)
@click.option(
    "--recovery/--no-recovery", default=True, help="Sweep for lapsed leases in this process too."
)
@click.option("--verbose", "-v", is_flag=True, help="A line for each job.")
@logging_options.format_option
@click.option("--id", hidden=True)
@click.option("--with-parent", is_flag=True, hidden=True)
def worker(
    session: Session,
    targets: tuple[str, ...],
    concurrency: int,
    weights: Any,
    processes: int,
    grace: float,
    maintenance: bool,
    recovery: bool,
    verbose: bool,
    log_format: LogFormat,
    id: str | None,
    with_parent: bool,
) -> None:
    """Run the handlers of a module's queues.

    SIGTERM or Ctrl-C stops it: running jobs may end, the rest is given back.

    The module opens its own store; --store reaches it as the variable ACKLINE_STORE. A store
    that cannot be reached is waited for.

    ackline worker examples.email_worker:queue --concurrency 32
    ackline worker orders:paid orders:free --weights 3,1
    """
    log_options = logging_options.configure_session_logging(session, log_format, verbose=verbose)
    if session.common.store is not None:
        os.environ["ACKLINE_STORE"] = session.url
    if with_parent:
        _stop_with_parent()
    queues = _wait_for_store(lambda: load_queues(targets, debug=session.common.debug))
    _require_weights(queues, weights)
    if processes == 1:
        _work(
            queues,
            verbose,
            concurrency=concurrency,
            weights=weights,
            grace=grace,
            maintenance=maintenance,
            recovery=recovery,
            id=id,
        )
        return
    options = ["--concurrency", str(concurrency), "--grace", str(grace)]
    options += ["--weights", ",".join(map(str, weights))] if weights else []
    options += ["--maintenance" if maintenance else "--no-maintenance"]
    options += ["--recovery" if recovery else "--no-recovery"]
    options += ["--verbose"] * verbose + log_options
    _supervise(queues, [*targets, *options], processes, grace)


def _stop_with_parent() -> None:
    from ackline.worker.processes.child_process import stop_with_parent

    stop_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))


def _wait_for_store(act: Callable[[], T]) -> T:
    """Call `act` until the store can be reached; a module that opens it is imported again."""
    from ackline.worker.startup_retry import retry_until_available

    # No job has begun that a signal would have to wait for: it ends the process.
    done = retry_until_available(act, threading.Event())
    assert done is not None
    return done


def _require_weights(queues: Sequence[Queue[Any, Any]], weights: Sequence[float] | None) -> None:
    if weights is not None and len(weights) != len(queues):
        raise UsageError(
            f"--weights has {pluralize(len(weights), 'number')}, and there are "
            f"{pluralize(len(queues), 'queue')}: give one for each, in their order"
        )


def _work(queues: Sequence[Queue[Any, Any]], verbose: bool, **options: Any) -> None:
    from ackline.worker import Hooks, Worker

    sys.setswitchinterval(SWITCH_INTERVAL)
    hooks = Hooks(before=[record_start], after=[log_job]) if verbose else Hooks()
    worker = Worker(*queues, hooks=hooks, **options)
    for queue in queues:
        kinds = ", ".join(sorted(map(safe, queue.handlers.kinds)))
        where = _wait_for_store(queue.store.info)
        logger.info("%s: handlers for %s; %s %s", queue.key, kinds, where.name, where.location)
    worker.run()


def _supervise(
    queues: Sequence[Queue[Any, Any]], arguments: Sequence[str], processes: int, grace: float
) -> None:
    from ackline.worker.processes.supervisor import Supervisor

    for queue in queues:
        if not queue.store.capabilities.shared:
            raise UsageError(
                f"queue {queue.key} is in a {queue.store.capabilities.name} store, which each "
                "process would have for itself: use --processes 1, or a store on disk"
            )

    def command_for(id: str) -> list[str]:
        program = [sys.executable, "-m", "ackline", "worker"]
        return [*program, *arguments, "--id", id, "--with-parent"]

    logger.info("supervisor %d of %s", os.getpid(), pluralize(processes, "process", "processes"))
    Supervisor(queues, command_for, processes=processes, grace=grace).run()
    logger.info("supervisor %d stopped", os.getpid())


# --- what is logged ---


_started: dict[tuple[str, int], float] = {}


def record_start(job: Job[Any]) -> None:
    """Before a handler, with --verbose."""
    _started[job.id, job.record.token] = time.perf_counter()


def log_job(job: Job[Any], execution: Any) -> None:
    """After a handler, with --verbose."""
    began = _started.pop((job.id, job.record.token), None)
    took = "" if began is None else f" in {(time.perf_counter() - began) * 1000:.0f} ms"
    how = "ended"
    if execution.error is not None:
        how = f"failed ({type(execution.error).__name__}: {safe(str(execution.error))})"
    logger.debug(
        "%s: %s %s attempt %d %s%s", job.queue, job.kind, safe(job.id), job.attempts, how, took
    )
