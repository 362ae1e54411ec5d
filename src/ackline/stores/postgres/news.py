"""Wake-ups by NOTIFY: one connection listens for all listeners of a store.

A NOTIFY makes commits wait for each other, so it is sent only while somebody waits: who waits
has a row in the table `waiting`, and whoever commits looks there afterwards. A listener whose
owner has not come back to wait is disarmed by the first news that finds it away; when it comes
back it is armed again, and told to look once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import select
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from ackline.errors import StoreError
from ackline.job import QueueKey
from ackline.pauses import Pauses
from ackline.stores.base import Topic
from ackline.stores.postgres.arrays import Blobs, Ints
from ackline.stores.postgres.codes import TOPICS
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.exchange import Connection
from ackline.stores.postgres.listen import PostgresListener, Subject
from ackline.stores.postgres.transaction import Transaction

logger = logging.getLogger("ackline")

PULSE = 15.0
"""Seconds between signs that this process still waits, and that the connection still works."""

PATIENCE = 4 * PULSE
"""Seconds after which who gives no sign counts as gone."""

RETRIES = (0.05, 2.0)
"""Seconds between tries to listen again."""

PLACE = "place"
"""What a message begins with that tells where in a line a job has come to stand late."""

AWAY = 0.05
"""Seconds after a wait during which its owner is likely to come back."""


@functools.lru_cache(maxsize=4096)
def tag_of(queue: QueueKey) -> bytes:
    """A short name of a queue; no two queues share it."""
    parts = f"{len(queue.tenant)}:{queue.tenant}{queue.name}"
    return hashlib.blake2b(parts.encode(), digest_size=16).digest()


def subject_of(queue: QueueKey, topic: Topic) -> Subject:
    """What a listener waits for, as the table has it."""
    return tag_of(queue), TOPICS.index(topic)


class News:
    """All listeners of one store, and the connection that hears for them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        schema = hashlib.blake2b(engine.address.schema.encode(), digest_size=8).hexdigest()
        self._channel = f"ackline_{schema}"
        self._who = os.urandom(12)
        self._lock = threading.Lock()
        self._listeners: frozenset[PostgresListener] = frozenset()
        self._thread: threading.Thread | None = None
        self._awake, self._waker = -1, -1
        self.hears = False
        """Whether the connection stands; without it listeners must look for themselves."""

    # --- telling ---

    def tell(self, tx: Transaction) -> None:
        """After a commit, wake those who wait for what it did."""
        subjects = [subject_of(queue, topic) for topic, queue in tx.news]
        tx.send("notify", _columns(subjects) | {"channel": self._channel})

    def tell_at_commit(self, tx: Transaction) -> None:
        """Have a caller's commit wake those who will wait by then, and send them to new places."""
        subjects = sorted(subject_of(queue, topic) for topic, queue in tx.news)
        messages = [f"{topic} {tag.hex()}" for tag, topic in subjects]
        # First: who is woken is to look there.
        messages[:0] = [
            f"{PLACE} {line} {lane} {rank!r} {job}"
            for (line, lane), (rank, job) in tx.places.items()
        ]
        tx.send("notify_at_commit", {"channel": self._channel, "messages": messages})

    # --- listening ---

    def listen(self, queues: Sequence[QueueKey], topic: Topic) -> PostgresListener:
        """Start to listen; from now on nothing is missed."""
        subjects = frozenset(subject_of(queue, topic) for queue in queues)
        listener = PostgresListener(self, subjects)
        with self._lock:
            self._listeners |= {listener}
            if self._engine.address.lasting and self._thread is None:
                self._start()
        try:
            self.arm(listener)
        except BaseException:
            listener.close()
            raise
        return listener

    def forget(self, listener: PostgresListener) -> None:
        """It listens no longer."""
        with self._lock:
            self._listeners -= {listener}

    def arm(self, listener: PostgresListener) -> None:
        """Let those who commit know that somebody waits."""
        listener.armed = True
        if self._engine.address.lasting:
            self._engine.statement("arm", self._armed_values(listener.subjects))

    def _armed_values(self, subjects: Iterable[Subject]) -> dict[str, Any]:
        return _columns(subjects) | {"who": self._who, "seconds": PATIENCE}

    def close(self) -> None:
        """Stop listening; whoever waits is woken."""
        with self._lock:
            thread, self._thread = self._thread, None
            waker, self._waker = self._waker, -1
        if thread is not None:
            os.close(waker)
            thread.join()
        for listener in self._listeners:
            listener.wake()

    # --- the connection ---

    def _start(self) -> None:
        self._awake, self._waker = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(
            target=self._run, args=(self._awake,), name="ackline-news", daemon=True
        )
        self._thread.start()

    def _run(self, awake: int) -> None:
        pauses = Pauses(*RETRIES)
        try:
            while not select.select([awake], [], [], 0)[0]:
                try:
                    with self._connect() as connection:
                        pauses.reset()
                        if self._hear(connection, awake):
                            return
                except (psycopg.Error, OSError, StoreError) as error:
                    logger.warning(
                        "%s: the connection for news broke: %s", self._engine.where, error
                    )
                self._wake_all(hears=False)
                if select.select([awake], [], [], pauses.next())[0]:
                    return
        finally:
            os.close(awake)

    @contextlib.contextmanager
    def _connect(self) -> Any:
        connection = self._engine.connections.connect()
        try:
            channel = sql.Identifier(self._channel)
            connection.execute(sql.SQL("LISTEN {}").format(channel))
            yield connection
        finally:
            connection.close()

    def _hear(self, connection: Connection, awake: int) -> bool:
        """Hear until the store is closed (True) or the connection breaks."""
        self._renew(connection)
        # What was told before we listened is unknown.
        self._wake_all(hears=True)
        renewed = time.monotonic()
        poll = select.poll()
        for descriptor in (awake, connection.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            left = renewed + PULSE - time.monotonic()
            ready = [descriptor for descriptor, _ in poll.poll(max(0.0, left) * 1000)]
            if awake in ready:
                return True
            if ready:
                self._hear_news(connection)
            if time.monotonic() - renewed >= PULSE:
                self._renew(connection)
                renewed = time.monotonic()

    def _hear_news(self, connection: Connection) -> None:
        pgconn = connection.pgconn
        pgconn.consume_input()
        while (notice := pgconn.notifies()) is not None:
            topic, *words = notice.extra.decode().split()
            if topic == PLACE:
                line, lane, rank, job = words
                self._engine.queues.lower_hints(int(line), int(lane), (float(rank), int(job)))
            else:
                self._deliver(connection, (bytes.fromhex(words[0]), int(topic)))

    def _deliver(self, connection: Connection, subject: Subject) -> None:
        concerned = [one for one in self._listeners if subject in one.subjects]
        for listener in concerned:
            listener.wake()
        now, armed = time.monotonic(), any(listener.armed for listener in concerned)
        if armed and not any(listener.here(now, AWAY) for listener in concerned):
            # First so, then in the table: who comes back in between arms again.
            for listener in concerned:
                listener.armed = False
            self._execute(connection, "disarm", _columns([subject]) | {"who": self._who})

    def _renew(self, connection: Connection) -> None:
        armed = {s for one in self._listeners if one.armed for s in one.subjects}
        self._execute(connection, "arm", self._armed_values(armed))
        self._execute(connection, "forget_waiting", {})

    def _execute(self, connection: Connection, name: str, values: dict[str, Any]) -> None:
        connection.execute(self._engine.statements[name], values)

    def _wake_all(self, *, hears: bool) -> None:
        self.hears = hears
        for listener in self._listeners:
            listener.wake()


def _columns(subjects: Iterable[Subject]) -> dict[str, Any]:
    ordered = sorted(subjects)
    return {
        "tags": Blobs([tag for tag, _ in ordered]),
        "topics": Ints([topic for _, topic in ordered]),
    }
