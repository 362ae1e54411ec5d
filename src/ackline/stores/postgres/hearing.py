"""The connection that receives notifications for all listeners of a process, in its own thread."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import psycopg
from psycopg import sql

from ackline.errors import StoreError
from ackline.pauses import Pauses
from ackline.stores.postgres.arrays import Blobs, Ints
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.exchange import Connection
from ackline.stores.postgres.listen import Subject, Waiter

logger = logging.getLogger("ackline")

PULSE = 15.0
"""Seconds between signs that this process still waits, and that the connection still works."""

PATIENCE = 4 * PULSE
"""Seconds after which a process that gives no such sign counts as gone."""

RETRIES = (0.05, 2.0)
"""Seconds between tries to listen again."""

PLACE = "place"
"""The first word of a message that gives the place in a line where a job was put late."""

AWAY = 0.05
"""Seconds after a wait within which its caller is likely to wait again."""


class Hearing:
    """Receives notifications, and wakes the listeners that they concern."""

    def __init__(
        self, engine: Engine, channel: str, listeners: Callable[[], frozenset[Waiter]]
    ) -> None:
        self._engine = engine
        self._channel = channel
        self._listeners = listeners
        self._who = os.urandom(12)
        self._process = os.getpid()
        self._stands = False
        self._heard: deque[str] = deque()
        self._awake, self._waker = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="ackline-news", daemon=True)

    @property
    def here(self) -> bool:
        """Whether this process started it; a forked child cannot use its parent's."""
        return self._process == os.getpid()

    @property
    def stands(self) -> bool:
        """Whether the connection stands, so that news arrive."""
        return self._stands and self.here

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; in a forked child, leave the parent's alone."""
        if not self.here:
            os.close(self._awake)
        else:
            # Closing it would not be enough, because a child may have it open as well.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._waker, b"!")
            self._thread.join()
        os.close(self._waker)

    def armed_values(self, subjects: Iterable[Subject]) -> dict[str, Any]:
        """The values of `arm`."""
        return columns_of(subjects) | {"who": self._who, "seconds": PATIENCE}

    # --- the thread ---

    def _run(self) -> None:
        pauses = Pauses(*RETRIES)
        try:
            while not self._is_over(0):
                try:
                    with self._connect() as connection:
                        pauses.reset()
                        if self._hear(connection):
                            return
                except (psycopg.Error, OSError, StoreError) as error:
                    logger.warning(
                        "%s: the connection for news broke: %s", self._engine.where, error
                    )
                self._wake_all(stands=False)
                if self._is_over(pauses.next()):
                    return
        finally:
            self._stands = False
            os.close(self._awake)

    def _is_over(self, seconds: float) -> bool:
        return bool(select.select([self._awake], [], [], seconds)[0])

    @contextlib.contextmanager
    def _connect(self) -> Iterator[Connection]:
        connection = self._engine.connections.connect()
        try:
            self._heard.clear()
            # While a statement is answered, it is the client that reads notifications.
            connection.add_notify_handler(lambda notice: self._heard.append(notice.payload))
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            yield connection
        finally:
            connection.close()

    def _hear(self, connection: Connection) -> bool:
        """Receive until the store is closed (True) or the connection breaks (raises)."""
        self._renew(connection)
        # Notifications from before we listened were missed.
        self._wake_all(stands=True)
        renewed = time.monotonic()
        poll = select.poll()
        for descriptor in (self._awake, connection.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            self._pass_on(connection)
            left = renewed + PULSE - time.monotonic()
            ready = [descriptor for descriptor, _ in poll.poll(max(0.0, left) * 1000)]
            if self._awake in ready:
                return True
            if ready:
                connection.pgconn.consume_input()
            if time.monotonic() - renewed >= PULSE:
                self._renew(connection)
                renewed = time.monotonic()

    def _pass_on(self, connection: Connection) -> None:
        """Deliver all notifications, also those that come meanwhile."""
        self._gather(connection)
        while self._heard:
            message = self._heard.popleft()
            try:
                self._deliver(connection, message)
            except ValueError:
                logger.warning("%s: news that nobody understands: %r", self._engine.where, message)
            self._gather(connection)

    def _gather(self, connection: Connection) -> None:
        while (notice := connection.pgconn.notifies()) is not None:
            self._heard.append(notice.extra.decode())

    def _deliver(self, connection: Connection, message: str) -> None:
        topic, *words = message.split()
        if topic == PLACE:
            line, lane, rank, job = words
            self._engine.queues.lower_hints(int(line), int(lane), (float(rank), int(job)))
        else:
            [tag] = words
            self._wake(connection, (bytes.fromhex(tag), int(topic)))

    def _wake(self, connection: Connection, subject: Subject) -> None:
        concerned = self._concerned(subject)
        for listener in concerned:
            listener.tell(subject)
        now = time.monotonic()
        if any(listener.here(now, AWAY) for listener in concerned):
            return
        if any(subject in listener.armed for listener in concerned):
            # First here, then in the table: a caller that waits again in between arms again.
            for listener in concerned:
                listener.disarmed()
            self._execute(connection, "disarm", columns_of([subject]) | {"who": self._who})
            self._arm_again(connection, subject)

    def _arm_again(self, connection: Connection, subject: Subject) -> None:
        """A caller that waited again while its row was being removed may have armed too early."""
        armed = [listener for listener in self._listeners() if subject in listener.armed]
        if armed:
            self._execute(connection, "arm", self.armed_values([subject]))
        for listener in armed:
            listener.tell(subject)

    def _concerned(self, subject: Subject) -> list[Waiter]:
        return [listener for listener in self._listeners() if listener.concerns(subject)]

    def _renew(self, connection: Connection) -> None:
        armed = {subject for listener in self._listeners() for subject in listener.armed}
        self._execute(connection, "arm", self.armed_values(armed))
        self._execute(connection, "forget_waiting", {})

    def _execute(self, connection: Connection, name: str, values: dict[str, Any]) -> None:
        connection.execute(self._engine.statements[name], values)

    def _wake_all(self, *, stands: bool) -> None:
        self._stands = stands
        for listener in self._listeners():
            listener.tell(None)


def columns_of(subjects: Iterable[Subject]) -> dict[str, Any]:
    """Subjects, as statements take them."""
    ordered = sorted(subjects)
    return {
        "tags": Blobs([tag for tag, _ in ordered]),
        "topics": Ints([topic for _, topic in ordered]),
    }
