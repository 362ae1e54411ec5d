"""`ackline relay`: pass the jobs of one store on to another, each exactly once."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

import ackline
from ackline.cli.app import command
from ackline.cli.exits import UsageError
from ackline.cli.options import log_format as logging_options
from ackline.cli.options import values
from ackline.cli.output.text import pluralize, safe
from ackline.cli.session import Session, require_existing_store, store_url
from ackline.logs import LogFormat
from ackline.queue import Queue
from ackline.queues import Queues, queue_not_found_message
from ackline.relay import Relay, RelayStats
from ackline.relay.relay import BATCH, LEASE
from ackline.worker.processes.stop_signals import handle_stop_signals
from ackline.worker.startup_retry import retry_until_available

logger = logging.getLogger("ackline")

REPORT_EVERY = 10.0
"""Seconds between log lines about jobs that were passed on."""


@command("relay")
@click.option("--to", required=True, metavar="URL", help="The store to pass them on to.")
@click.option(
    "--queue",
    multiple=True,
    required=True,
    metavar="NAME[=OTHER]",
    help="Which queue, and its name there if another.",
)
@click.option("--from", "source", metavar="URL", help="The store they are in; else --store.")
@click.option("--once", is_flag=True, help="Pass on what is ready, then end.")
@click.option(
    "--batch", type=click.IntRange(min=1), default=BATCH, metavar="N", help="Jobs per round trip."
)
@click.option(
    "--lease",
    type=values.seconds,
    default=f"{LEASE:g}s",
    metavar="SPAN",
    help="How soon another relay takes over from one that died.",
)
@click.option(
    "--maintenance/--no-maintenance",
    default=True,
    help="Promote, sweep and prune in the source too.",
)
@logging_options.format_option
def relay(
    session: Session,
    to: str,
    queue: tuple[str, ...],
    source: str | None,
    once: bool,
    batch: int,
    lease: float,
    maintenance: bool,
    log_format: LogFormat,
) -> None:
    """Pass the jobs of one store on to another, each exactly once.

    For jobs that were enqueued within the transaction of an application (an outbox in
    PostgreSQL), and run by workers of another store, such as Redis. A job keeps its id, kind,
    payload, priority and options; a delayed one is passed on when it is due.

    SIGTERM or Ctrl-C stops it. While a store is away it waits, and goes on by itself.

    ackline relay --from postgresql://db/app --to redis://redis --queue email
    """
    logging_options.configure_session_logging(session, log_format)
    stopping = threading.Event()
    if source is None:
        origin = session.url
        require_existing_store(origin, "--from, --store or ACKLINE_STORE")
    else:
        origin = store_url(source)
        require_existing_store(origin, "--from")
    deafen = handle_stop_signals(lambda _number: stopping.set())
    try:
        with (
            _opened(origin, session, stopping, retry=not once) as here,
            _opened(store_url(to), session, stopping, retry=not once) as there,
        ):
            names = [_parse_queue(text) for text in dict.fromkeys(queue)]
            then = "There is nothing to pass on" if once else "The relay waits for its first job"
            _warn_of_missing(here, [name for name, _ in names], then)
            relays = [
                Relay(here[name], there[other], batch=batch, lease=lease, maintenance=maintenance)
                for name, other in names
            ]
            if once:
                _drain_relays(relays)
            else:
                _run_relays(relays, stopping)
            _print_stats(session, relays)
    except _Stopped:
        return
    finally:
        deafen()


class _Stopped(Exception):
    """A signal came before both stores were open."""


def _parse_queue(text: str) -> tuple[str, str]:
    name, mark, other = text.partition("=")
    if not name or (mark and not other):
        raise UsageError(f"--queue {text!r}: write a queue's name, or NAME=OTHER")
    return name, other or name


@contextlib.contextmanager
def _opened(
    url: str, session: Session, stopping: threading.Event, *, retry: bool
) -> Iterator[Queues]:
    """Open a store; if `patient`, wait while it cannot be reached."""

    def open_it() -> Queues:
        return ackline.open(url, tenant=session.tenant)

    queues = retry_until_available(open_it, stopping) if retry else open_it()
    if queues is None:
        raise _Stopped
    with queues:
        yield queues


def _warn_of_missing(queues: Queues, names: Sequence[str], then: str) -> None:
    """A relay may start before its queue exists, but the name may also be mistyped."""
    known = set(queues)
    for name in names:
        if name not in known:
            logger.warning("%s %s", queue_not_found_message(queues, name), then)


def _location(queue: Queue[Any, Any]) -> str:
    return f"{queue.key} in {queue.store.info().location}"


def _drain_relays(relays: Sequence[Relay]) -> None:
    for relay in relays:
        relay.drain()


def _run_relays(relays: Sequence[Relay], stopping: threading.Event) -> None:
    threads = [
        threading.Thread(target=relay.run, name=f"relay {relay.source.key}") for relay in relays
    ]
    for relay, thread in zip(relays, threads, strict=True):
        logger.info("relay of %s to %s: started", _location(relay.source), _location(relay.target))
        thread.start()
    reported = [0] * len(relays)
    while not stopping.wait(REPORT_EVERY):
        reported = [_report(relay, before) for relay, before in zip(relays, reported, strict=True)]
    for relay in relays:
        relay.request_stop()
    for thread in threads:
        thread.join()


def _report(relay: Relay, before: int) -> int:
    relayed = relay.stats().relayed
    if relayed > before:
        logger.info(
            "relay of %s: %s passed on", relay.source.key, pluralize(relayed - before, "job")
        )
    return relayed


def _print_stats(session: Session, relays: Sequence[Relay]) -> None:
    if session.json:
        documents = [
            {
                "queue": relay.source.name,
                "to": relay.target.name,
                **msgspec.structs.asdict(relay.stats()),
            }
            for relay in relays
        ]
        session.print_json({"relays": documents})
        return
    for relay in relays:
        session.print_line(f"{safe(relay.source.name)}: {_stats_text(relay.stats())}")


def _stats_text(stats: RelayStats) -> str:
    parts = [f"{pluralize(stats.relayed, 'job')} passed on"]
    more = {
        "known there already": stats.duplicates,
        "found passed on by a relay that died": stats.replayed,
        "refused, see the DLQ": stats.refused,
    }
    return ", ".join([*parts, *(f"{number:,} {label}" for label, number in more.items() if number)])
