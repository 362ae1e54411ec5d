"""`ackline serve`: the HTTP service, in one process or several."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ackline.cli.app import command
from ackline.cli.exits import UsageError
from ackline.cli.options import log_format as logging_options
from ackline.cli.options import values
from ackline.cli.output.text import pluralize
from ackline.cli.session import Session
from ackline.core.errors import MissingExtra
from ackline.logs import LogFormat
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.stores.contract import Store
from ackline.stores.registry import store_from_url

if TYPE_CHECKING:
    from ackline.service.settings import Settings

logger = logging.getLogger("ackline")


@command("serve", creates_store=True)
@click.option("--host", help="The address to listen on.")
@click.option("--port", type=values.port, metavar="PORT", help="The port; 0 means any free one.")
@click.option("--base-path", metavar="PATH", help="Prefix of the paths of all routes.")
@click.option("--processes", type=click.IntRange(min=1), metavar="N", help="Number of processes.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings file, in TOML or YAML.",
)
@click.option("--lake", metavar="PATH", help="The lake whose statistics the dashboard shows.")
@click.option(
    "--maintenance/--no-maintenance",
    default=None,
    help="Run maintenance in this process: promote due jobs, recover leases, prune.",
)
@click.option(
    "--grace",
    type=values.seconds,
    metavar="SPAN",
    help="How long requests may take to finish on shutdown.",
)
@click.option(
    "--stored-keys/--no-stored-keys",
    default=None,
    help="Require API keys, and accept those kept in the store.",
)
@logging_options.format_option
@click.option("--socket", "socket_number", type=int, hidden=True)
@click.option("--shared", type=click.Path(path_type=Path), hidden=True)
@click.option("--id", hidden=True)
def serve(
    session: Session,
    host: str | None,
    port: int | None,
    base_path: str | None,
    processes: int | None,
    config: Path | None,
    lake: str | None,
    maintenance: bool | None,
    grace: float | None,
    stored_keys: bool | None,
    log_format: LogFormat,
    socket_number: int | None,
    shared: Path | None,
    id: str | None,
) -> None:
    """Serve queues over HTTP, with a dashboard.

    Without authentication, it listens only on this machine. Settings are read from the file, then
    from ACKLINE_… variables, then from these options; later ones override earlier ones. Without
    --config, the file is manifest.yaml in the working directory, if there is one.

    SIGTERM or Ctrl-C stops it: it is no longer ready, streams end and release their jobs, and
    requests in progress may finish.

    ackline serve --port 8000
    """
    flags = {
        "store": session.url if session.common.store is not None else None,
        "host": host,
        "port": port,
        "base_path": base_path,
        "processes": processes,
        "lake": lake,
        "maintenance": maintenance,
        "grace": grace,
        "stored_keys": stored_keys,
    }
    log_options = logging_options.configure_session_logging(session, log_format)
    settings = _settings(config, flags)
    if socket_number is not None:
        _run(settings, socket.socket(fileno=socket_number), id, shared)
    elif settings.processes == 1:
        _run_alone(settings)
    else:
        options = [] if config is None else ["--config", str(config)]
        options += log_options
        _supervise(settings, [*options, *_as_arguments(flags)])


def _settings(file: Path | None, flags: dict[str, Any]) -> Settings:
    try:
        from ackline.service.auth.authenticator import authenticator_for
        from ackline.service.settings import MANIFEST, load
    except ModuleNotFoundError as error:
        raise MissingExtra(f"ackline serve (no module {error.name!r})", "service") from None
    if file is None and Path(MANIFEST).is_file():
        file = Path(MANIFEST)
        logger.info("settings of queues are read from %s", file.resolve())
    settings = load(file, flags=flags)
    # Rejects an address that is unsafe without authentication, and keys that cannot be read.
    authenticator_for(settings, store_from_url(settings.store))
    return settings


def _run_alone(settings: Settings) -> None:
    from ackline.service.server import bind

    _run(settings, bind(settings), None)


def _run(
    settings: Settings, listener: socket.socket, id: str | None, shared: Path | None = None
) -> None:
    from ackline.service.runtime import Runtime
    from ackline.service.server import Server, service_url
    from ackline.worker.processes.child_process import stop_with_parent

    runtime = Runtime.from_settings(settings, shared)
    if id is not None:
        runtime.worker = id

    def announce() -> None:
        info = runtime.store.info()
        url = service_url(listener, settings)
        store = f"{info.name} {info.location}"
        if id is None:
            logger.info("dashboard at %s/", url)
        logger.info("serving %s at %s%s", store, url, settings.base)

    server = Server(runtime, announce)

    def stop() -> None:
        server.close_port()  # so that a new supervisor can bind it
        server.request_stop()

    if id is not None:
        stop_with_parent(stop)
    server.run(listener)
    logger.info("stopped")


# --- several processes ---


def _as_arguments(flags: dict[str, Any]) -> list[str]:
    arguments = []
    for name, value in flags.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            arguments.append(option if value else option.replace("--", "--no-", 1))
        elif value is not None:
            arguments += [option, str(value)]
    return arguments


class StoreQueues:
    """All queues that the store has when it is iterated over."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __iter__(self) -> Iterator[Queue[Any, Any]]:
        for info in self._store.describe(None):
            yield Queues(self._store, info.key.tenant)[info.key.name]


def _supervise(settings: Settings, options: list[str]) -> None:
    from ackline.service.server import bind, service_url
    from ackline.service.supervisor import ServiceSupervisor

    store = store_from_url(settings.store)
    if not store.capabilities.shared:
        raise UsageError(
            f"processes cannot share a {store.capabilities.name} store: "
            "use --processes 1, or a store on disk"
        )
    store.open()
    listener = bind(settings)
    socket_number = listener.fileno()

    def command_for(id: str) -> list[str]:
        program = [sys.executable, "-m", "ackline", "serve", *options]
        return [*program, "--socket", str(socket_number), "--shared", shared, "--id", id]

    url = service_url(listener, settings)
    logger.info("dashboard at %s/", url)
    logger.info(
        "serving at %s%s by %s",
        url,
        settings.base,
        pluralize(settings.processes, "process", "processes"),
    )
    try:
        queues = StoreQueues(store)
        with tempfile.TemporaryDirectory(prefix="ackline-") as shared:
            ServiceSupervisor(
                queues,
                command_for,
                processes=settings.processes,
                grace=settings.grace,
                listener=listener,
                drain=settings.drain,
            ).run()
    finally:
        store.close()
    logger.info("supervisor %d stopped", os.getpid())
