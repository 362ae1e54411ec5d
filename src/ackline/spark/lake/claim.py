"""One run of a lake at a time: a key in the store names it for as long as it lives."""

from __future__ import annotations

import datetime
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from ackline.core.errors import StoreError
from ackline.core.ids import new_id
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.queues import Queues
from ackline.spark.errors import LakeClaimed
from ackline.spark.store.address import StoreAddress
from ackline.stores.contract import KeyValue, KeyWrite, find_key

logger = logging.getLogger("ackline")

BEAT = 5.0
"""Seconds between the heartbeats of a run."""

SILENCE = 6 * BEAT
"""Seconds without a heartbeat after which a run is considered dead."""

GLANCE = 0.5
"""Seconds between two looks at the claim of another run."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The run that has a lake."""

    by: str
    host: str
    pid: int
    system: str
    """The boot and the process namespace in which `pid` is valid."""
    since: float
    beats: int = 0


class LakeClaim:
    """The exclusive claim of one run on a lake.

    Another run is dead if its process is gone, where that can be seen, or if it sends no heartbeat
    while it is watched for `SILENCE`. The clocks of two machines are never compared.
    """

    def __init__(
        self,
        queues: Queues,
        lake: str,
        path: str,
        holder: Holder | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._store, self._tenant = queues.store, queues.tenant
        self._lake = lake
        self._key = reserved_key(KeyFamily.SPARK, "lakes", lake)
        self._path = path
        self._clock, self._pause = clock, pause
        self._lock = threading.Lock()
        self._version = 0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.holder = holder or _this_run()

    def take(self) -> None:
        """Claim the lake for this run; `LakeClaimed` if another run that lives has it."""
        while True:
            found = self._find()
            if found is not None:
                self._require_dead(found)
            write = self._write(self.holder, 0 if found is None else found.version)
            if self._store.write_keys(self._tenant, [write]):
                break
        self._require_mine()

    def keep(self) -> None:
        """Send heartbeats from now on, until `release`."""
        name = f"ackline lake {self._path}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def beat(self) -> None:
        """Send a heartbeat; `LakeClaimed` if another run has the lake."""
        with self._lock:
            self._require_mine()
            held = msgspec.structs.replace(self.holder, beats=self.holder.beats + 1)
            if self._store.write_keys(self._tenant, [self._write(held, self._version)]):
                self.holder = held
            self._require_mine()

    def check(self) -> None:
        """`LakeClaimed` unless this run still has the lake."""
        with self._lock:
            self._require_mine()

    def fence(self, address: StoreAddress) -> Fence:
        """The same check for other processes, which reach the store by themselves."""
        return Fence(address=address, lake=self._lake, path=self._path, holder=self.holder)

    def release(self) -> None:
        """Leave the lake to the next run."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=BEAT)
        try:
            with self._lock:
                self._let_go()
        except StoreError as error:
            # The next run finds out that this one is gone.
            logger.warning("the claim on the lake could not be released: %s", error)

    def _let_go(self) -> None:
        found = self._find()
        if found is not None and _read(found).by == self.holder.by:
            gone = KeyWrite(key=self._key, value=None, version=found.version)
            self._store.write_keys(self._tenant, [gone])

    def _require_dead(self, found: KeyValue) -> None:
        """Watch another run for as long as it takes to know whether it lives."""
        until, holder = self._clock() + SILENCE, _read(found)
        while not _is_gone(holder) and self._clock() < until:
            now = self._find()
            if now is None:
                return
            if now.version != found.version:
                raise LakeClaimed(
                    f"{self._named(_read(now))} is at work: wait until it has ended, or stop it"
                )
            self._pause(GLANCE)
        logger.warning("%s is dead; this one continues", self._named(holder))

    def _named(self, holder: Holder) -> str:
        since = datetime.datetime.fromtimestamp(holder.since, datetime.UTC)
        return (
            f"another run of the lake {self._path} (process {holder.pid} on {holder.host}, "
            f"since {since:%Y-%m-%d %H:%M:%S} UTC)"
        )

    def _require_mine(self) -> None:
        found = self._find()
        if found is None or _read(found).by != self.holder.by:
            other = "another run" if found is None else self._named(_read(found))
            raise LakeClaimed(f"{other} has taken over: this one stops, and the other continues")
        self._version = found.version

    def _run(self) -> None:
        while not self._stopped.wait(BEAT):
            try:
                self.beat()
            except LakeClaimed:
                return  # The run finds out at its next step.
            except Exception as error:
                # If this thread ended, the run would work on until another takes the lake over.
                logger.error("the claim on the lake could not be renewed: %r", error)

    def _find(self) -> KeyValue | None:
        return find_key(self._store, self._tenant, self._key)

    def _write(self, holder: Holder, version: int) -> KeyWrite:
        return KeyWrite(key=self._key, value=msgspec.msgpack.encode(holder), version=version)


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """A run's claim on a lake, for a part of the run that Spark may put into another process."""

    address: StoreAddress
    lake: str
    path: str
    holder: Holder

    def check(self) -> None:
        """`LakeClaimed` unless that run still has the lake."""
        with self.address.open() as queues:
            LakeClaim(queues, self.lake, self.path, self.holder).check()


def _this_run() -> Holder:
    return Holder(
        by=new_id(),
        host=socket.gethostname(),
        pid=os.getpid(),
        system=_system(),
        since=time.time(),
    )


def _read(entry: KeyValue) -> Holder:
    return msgspec.msgpack.decode(entry.value, type=Holder)


def _is_gone(holder: Holder) -> bool:
    """Whether a run's process is certainly gone; only those of this system can be checked."""
    if holder.system != _system():
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _system() -> str:
    """The boot of this machine and the process namespace: a container has its own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        # No containers without /proc: the name is enough.
        return socket.gethostname()
