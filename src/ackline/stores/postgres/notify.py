"""Wake-ups by LISTEN and NOTIFY: one connection receives them for all listeners of a store.

Transactions that send a NOTIFY wait for each other at the commit, so it is sent only while a
process waits for it: a registered listener has a row in the table `listener`, and every process
reads that table after its commits. A listener that is notified while no caller waits on it is
unregistered. When its caller waits again, it is registered again, and the caller checks once.
Without NOTIFY, listeners poll.
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
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Self

import psycopg
from psycopg import sql

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import StoreError, StoreUnavailable
from ackline.core.fork_safety import renew_locks_after_fork
from ackline.core.job import QueueKey
from ackline.stores import contract
from ackline.stores.contract import TOPICS, Topic
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.io.pipeline import ByteStrings, Connection, Ints
from ackline.stores.postgres.io.transaction import Transaction

logger = logging.getLogger("ackline")

POLL_INTERVAL = 0.25
"""Seconds between checks of a listener while no notifications arrive."""

REGISTER_RETRY_DELAY = 0.5
"""Seconds after which a listener that could not register tries again."""

SubjectKey = tuple[bytes, int]
"""A queue and a topic, as the table `listener` has them."""


class _NotifyListener:
    """Waits for subjects, each of which is registered or will be before the next wait."""

    def __init__(self, source: Notifier) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._subjects: dict[SubjectKey, contract.Subject] = {}
        self._unregistered: set[SubjectKey] = set()
        self._to_remove: set[SubjectKey] = set()
        self._woken_subjects: set[contract.Subject] = set()
        self._missed = False
        self._polled_at = time.monotonic()
        """When its caller last checked everything, because no notifications arrive."""
        self._woken = threading.Event()
        self._closed = False

    # --- used by the thread that receives notifications ---

    @property
    def registered(self) -> Collection[SubjectKey]:
        """The subjects that committing processes send notifications for."""
        with self._lock:
            return self._subjects.keys() - self._unregistered

    def listens_to(self, subject: SubjectKey) -> bool:
        """Whether it waits for this subject."""
        return subject in self._subjects

    def is_waiting(self, _now: float, _within: float) -> bool:
        """Whether a caller waits, or did so less than some seconds ago; here, always."""
        return True

    def unregister_all(self) -> None:
        """Record that no notifications are sent for its subjects any more."""
        with self._lock:
            self._unregistered.update(self._subjects)

    def notify(self, subject: SubjectKey | None) -> None:
        """Wake its caller for a subject; without one, for all of them."""
        with self._lock:
            if subject is None:
                self._missed = True
            elif subject in self._subjects:
                self._woken_subjects.add(self._subjects[subject])
        self._woken.set()

    # --- used by its caller ---

    def _add(self, subjects: Iterable[contract.Subject]) -> None:
        with self._lock:
            added = {subject_key(*subject): subject for subject in subjects}
            self._subjects |= added
            self._unregistered |= added.keys()
            self._to_remove -= added.keys()

    def register(self) -> set[SubjectKey]:
        """Register new subjects and remove others; returns the new ones."""
        with self._lock:
            to_remove, new = self._to_remove, self._unregistered
            self._to_remove, self._unregistered = set(), set()
        try:
            if to_remove:
                self._source.remove_listeners(to_remove)
            if new:
                self._source.add_listeners(new)
        except BaseException:
            with self._lock:
                self._to_remove |= to_remove - self._subjects.keys()
                self._unregistered |= new & self._subjects.keys()
            raise
        return new

    def _wait_for_wakeup(self, timeout: float) -> Collection[contract.Subject] | None:
        """Wait for a wake-up; returns the subjects, or None if any of them may have changed."""
        if self._closed:
            return ()
        try:
            new = self.register()
        except StoreUnavailable:
            self._woken.wait(min(timeout, REGISTER_RETRY_DELAY))
            return self._take_wakeups()
        if new:
            # Before these were registered, no notifications were sent: the caller must check once.
            with self._lock:
                self._woken_subjects.update(self._subjects[subject] for subject in new)
            self._woken.set()
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            polling = not self._source.connected and bool(self._subjects)
            due_in = self._polled_at + POLL_INTERVAL - time.monotonic()
            pause = min(left, max(0.0, due_in)) if polling else left
            woken = self._woken.wait(pause)
            subjects = self._take_wakeups()
            if subjects is None or (
                polling and time.monotonic() >= self._polled_at + POLL_INTERVAL
            ):
                self._polled_at = time.monotonic()
                return None
            if woken or left <= pause:
                return subjects

    def _take_wakeups(self) -> Collection[contract.Subject] | None:
        self._woken.clear()
        with self._lock:
            subjects, self._woken_subjects = self._woken_subjects, set()
            missed, self._missed = self._missed, False
        return None if missed else subjects

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._closed = True
        self._woken.set()
        self._source.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class PostgresListener(_NotifyListener):
    """Waits for wake-ups of some queues on one topic."""

    def __init__(self, source: Notifier, subjects: Iterable[contract.Subject]) -> None:
        super().__init__(source)
        self._add(subjects)
        self._waiting = 0
        self._left_at = time.monotonic()

    def is_waiting(self, now: float, within: float) -> bool:
        return self._waiting > 0 or now - self._left_at < within

    def wait(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        self._waiting += 1
        try:
            subjects = self._wait_for_wakeup(timeout)
        finally:
            self._left_at = time.monotonic()
            self._waiting -= 1
        return subjects is None or bool(subjects) or self._left_at < deadline


class PostgresSubscription(_NotifyListener):
    """Waits for wake-ups of many subjects, which may be added and removed."""

    def add(self, subjects: Iterable[contract.Subject]) -> None:
        self._add(subjects)

    def remove(self, subjects: Iterable[contract.Subject]) -> None:
        with self._lock:
            removed = {subject_key(*subject) for subject in subjects}
            for subject in removed & self._subjects.keys():
                self._woken_subjects.discard(self._subjects.pop(subject))
            self._unregistered -= removed
            self._to_remove |= removed

    def wait(self, timeout: float) -> Collection[contract.Subject] | None:
        return self._wait_for_wakeup(timeout)


RENEW_INTERVAL = 15.0
"""Seconds after which a process renews its rows, and checks that the connection works."""

LISTENER_TTL = 4 * RENEW_INTERVAL
"""Seconds after which rows that were not renewed no longer count."""

RECONNECT_DELAYS = (0.05, 2.0)
"""The first and the longest delay between attempts to reconnect, in seconds."""

POSITION_MESSAGE = "position"
"""The first word of a message with the position where a job was added by a late commit."""

WAIT_AGAIN_WITHIN = 0.05
"""Seconds within which a caller that has just waited is likely to wait again."""


class NotificationThread:
    """Receives notifications, and wakes the listeners that wait for them."""

    def __init__(
        self, engine: Engine, channel: str, listeners: Callable[[], frozenset[_NotifyListener]]
    ) -> None:
        self._engine = engine
        self._channel = channel
        self._listeners = listeners
        self._process_key = os.urandom(12)
        self._process = os.getpid()
        self._connected = False
        self._messages: deque[str] = deque()
        self._stop_reader, self._stop_writer = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="ackline-notifications", daemon=True)

    @property
    def in_this_process(self) -> bool:
        """Whether this process started it; a forked child cannot use its parent's."""
        return self._process == os.getpid()

    @property
    def connected(self) -> bool:
        """Whether notifications arrive."""
        return self._connected and self.in_this_process

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; in a forked child, leave the parent's running."""
        if not self.in_this_process:
            os.close(self._stop_reader)
        else:
            # Closing the pipe would not be enough, because a forked child may have it open.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._stop_writer, b"!")
            self._thread.join()
        os.close(self._stop_writer)

    def listener_parameters(self, subjects: Iterable[SubjectKey]) -> dict[str, Any]:
        """The parameters of `add_listeners`."""
        return columns_of(subjects) | {"process": self._process_key, "seconds": LISTENER_TTL}

    # --- the thread ---

    def _run(self) -> None:
        pauses = ExponentialDelay(*RECONNECT_DELAYS)
        try:
            while not self._is_over(0):
                try:
                    with self._connect() as connection:
                        pauses.reset()
                        if self._receive(connection):
                            return
                except (psycopg.Error, OSError, StoreError) as error:
                    logger.warning(
                        "%s: the connection that receives notifications broke: %s",
                        self._engine.where,
                        error,
                    )
                self._wake_all(connected=False)
                if self._is_over(pauses.next()):
                    return
        finally:
            self._connected = False
            os.close(self._stop_reader)

    def _is_over(self, seconds: float) -> bool:
        return bool(select.select([self._stop_reader], [], [], seconds)[0])

    @contextlib.contextmanager
    def _connect(self) -> Iterator[Connection]:
        connection = self._engine.connections.connect()
        try:
            self._messages.clear()
            # Notifications that arrive while a statement runs are read by psycopg.
            connection.add_notify_handler(lambda notice: self._messages.append(notice.payload))
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            yield connection
        finally:
            connection.close()

    def _receive(self, connection: Connection) -> bool:
        """Receive until the store is closed (returns True) or the connection breaks (raises)."""
        self._renew(connection)
        # Notifications may have been missed before LISTEN.
        self._wake_all(connected=True)
        renewed = time.monotonic()
        poll = select.poll()
        for descriptor in (self._stop_reader, connection.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            self._dispatch(connection)
            left = renewed + RENEW_INTERVAL - time.monotonic()
            ready = [descriptor for descriptor, _ in poll.poll(max(0.0, left) * 1000)]
            if self._stop_reader in ready:
                return True
            if ready:
                connection.pgconn.consume_input()
            if time.monotonic() - renewed >= RENEW_INTERVAL:
                self._renew(connection)
                renewed = time.monotonic()

    def _dispatch(self, connection: Connection) -> None:
        """Deliver all notifications, including those that arrive meanwhile."""
        self._collect(connection)
        while self._messages:
            message = self._messages.popleft()
            try:
                self._deliver(connection, message)
            except ValueError:
                logger.warning("%s: unknown notification: %r", self._engine.where, message)
            self._collect(connection)

    def _collect(self, connection: Connection) -> None:
        while (notice := connection.pgconn.notifies()) is not None:
            self._messages.append(notice.extra.decode())

    def _deliver(self, connection: Connection, message: str) -> None:
        topic, *words = message.split()
        if topic == POSITION_MESSAGE:
            kind_id, lane, rank, job = words
            self._engine.queues.step_back_to(int(kind_id), int(lane), (float(rank), int(job)))
        else:
            [hash_hex] = words
            self._wake(connection, (bytes.fromhex(hash_hex), int(topic)))

    def _wake(self, connection: Connection, subject: SubjectKey) -> None:
        listeners = self._listeners_of(subject)
        for listener in listeners:
            listener.notify(subject)
        now = time.monotonic()
        if any(listener.is_waiting(now, WAIT_AGAIN_WITHIN) for listener in listeners):
            return
        if any(subject in listener.registered for listener in listeners):
            # First here, then in the table: a caller that waits again in between registers again.
            for listener in listeners:
                listener.unregister_all()
            self._execute(
                connection,
                "remove_listeners",
                columns_of([subject]) | {"process": self._process_key},
            )
            self._register_again(connection, subject)

    def _register_again(self, connection: Connection, subject: SubjectKey) -> None:
        """Register a caller again that waited while its row was being removed."""
        registered = [listener for listener in self._listeners() if subject in listener.registered]
        if registered:
            self._execute(connection, "add_listeners", self.listener_parameters([subject]))
        for listener in registered:
            listener.notify(subject)

    def _listeners_of(self, subject: SubjectKey) -> list[_NotifyListener]:
        return [listener for listener in self._listeners() if listener.listens_to(subject)]

    def _renew(self, connection: Connection) -> None:
        registered = {subject for listener in self._listeners() for subject in listener.registered}
        self._execute(connection, "add_listeners", self.listener_parameters(registered))
        self._execute(connection, "delete_expired_listeners", {})

    def _execute(self, connection: Connection, name: str, values: dict[str, Any]) -> None:
        connection.execute(self._engine.statements[name], values)

    def _wake_all(self, *, connected: bool) -> None:
        self._connected = connected
        for listener in self._listeners():
            listener.notify(None)


def columns_of(subjects: Iterable[SubjectKey]) -> dict[str, Any]:
    """Subjects as parameters of a statement."""
    ordered = sorted(subjects)
    return {
        "queue_hashes": ByteStrings([hash for hash, _ in ordered]),
        "topics": Ints([topic for _, topic in ordered]),
    }


@functools.lru_cache(maxsize=4096)
def queue_hash(queue: QueueKey) -> bytes:
    """A hash of the name of a queue."""
    parts = f"{len(queue.tenant)}:{queue.tenant}{queue.name}"
    return hashlib.blake2b(parts.encode(), digest_size=16).digest()


def subject_key(queue: QueueKey, topic: Topic) -> SubjectKey:
    """A queue and a topic, as the table `listener` has them."""
    return queue_hash(queue), TOPICS.index(topic)


@functools.lru_cache(maxsize=4096)
def _columns_of_wakeups(wakeups: frozenset[tuple[Topic, QueueKey]]) -> dict[str, Any]:
    return columns_of(subject_key(queue, topic) for topic, queue in wakeups)


class Notifier:
    """The listeners of one store; notifies them and those of other processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        schema = hashlib.blake2b(engine.address.schema.encode(), digest_size=8).hexdigest()
        self.channel = f"ackline_{schema}"
        self._lock = threading.Lock()
        renew_locks_after_fork(self, "_lock")
        self._listeners: frozenset[_NotifyListener] = frozenset()
        self._thread: NotificationThread | None = None

    @property
    def connected(self) -> bool:
        """Whether notifications arrive; if not, listeners poll."""
        thread = self._thread
        return thread is not None and thread.connected

    # --- notifying ---

    def notify(self, tx: Transaction) -> None:
        """After a commit, notify the listeners that wait for its wake-ups."""
        values = {"channel": self.channel, "if_claimed": int(tx.notify_if_claimed)}
        tx.send("notify", _columns_of_wakeups(frozenset(tx.wakeups)) | values)

    def notify_at_commit(self, tx: Transaction) -> None:
        """Notify listeners when a borrowed transaction commits, with the positions of its jobs."""
        if not self._engine.address.notify:
            return
        subjects = sorted(subject_key(queue, topic) for topic, queue in tx.wakeups)
        messages = [f"{topic} {hash.hex()}" for hash, topic in subjects]
        # The positions come first, so that a claim that is woken finds the jobs.
        messages[:0] = [
            f"{POSITION_MESSAGE} {kind_id} {lane} {rank!r} {job}"
            for (kind_id, lane), (rank, job) in tx.added_positions.items()
        ]
        tx.send("notify_at_commit", {"channel": self.channel, "messages": messages})

    # --- listening ---

    def listen(self, queues: Sequence[QueueKey], topic: Topic) -> PostgresListener:
        """Start to listen; no wake-up is missed from now on."""
        listener = PostgresListener(self, [(queue, topic) for queue in queues])
        self._add(listener)
        try:
            listener.register()
        except BaseException:
            listener.close()
            raise
        return listener

    def subscribe(self) -> PostgresSubscription:
        """Listen to many queues and topics."""
        subscription = PostgresSubscription(self)
        self._add(subscription)
        return subscription

    def _add(self, listener: _NotifyListener) -> None:
        with self._lock:
            self._listeners |= {listener}
            if self._engine.address.uses_listen:
                self._start_thread()

    def _start_thread(self) -> None:
        """Start the thread, once per process; a forked child needs one of its own."""
        if self._thread is not None:
            if self._thread.in_this_process:
                return
            self._thread.stop()
        for listener in self._listeners:
            listener.unregister_all()
        self._thread = NotificationThread(self._engine, self.channel, lambda: self._listeners)
        self._thread.start()

    def discard(self, listener: _NotifyListener) -> None:
        """Remove a closed listener."""
        with self._lock:
            self._listeners -= {listener}

    def add_listeners(self, subjects: Collection[SubjectKey]) -> None:
        """Request notifications of these subjects."""
        thread = self._thread
        if thread is not None and thread.in_this_process:
            self._engine.statement("add_listeners", thread.listener_parameters(subjects))

    def remove_listeners(self, subjects: Collection[SubjectKey]) -> None:
        """Stop notifications of these subjects."""
        thread = self._thread
        if thread is None or not thread.in_this_process:
            return
        self._engine.statement("remove_listeners", thread.listener_parameters(subjects))
        # Other listeners of this process share the rows, and may have registered meanwhile.
        registered = {subject for listener in self._listeners for subject in listener.registered}
        if shared := registered.intersection(subjects):
            self.add_listeners(shared)
            for listener in self._listeners:
                for subject in shared:
                    if listener.listens_to(subject):
                        listener.notify(subject)

    def close(self) -> None:
        """Stop listening, and wake every waiting caller."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
        for listener in self._listeners:
            listener.notify(None)
