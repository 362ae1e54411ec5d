"""Wake-ups by NOTIFY: one connection listens for all listeners of a store.

A NOTIFY makes commits wait for each other, so it is sent only while somebody waits: an armed
listener has a row in the table `listener`, and every process looks there after its commits. If news
arrives while nobody waits on a listener, the listener is disarmed; when its caller waits again, it
is armed again, and the caller looks once. Where no news arrives, listeners look by the clock.
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

POLL_INTERVAL = 0.25
"""Seconds after which a listener looks for itself, where no news arrives."""

ARM_RETRY_DELAY = 0.5
"""Seconds after which a subscription tries again to have itself notified."""

SubjectKey = tuple[bytes, int]
"""A queue and a topic, as the table `listener` has them."""


class _NotifyListener:
    """Hears of subjects, each armed or to be armed when it next waits."""

    def __init__(self, source: Notifier) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._subjects: dict[SubjectKey, contract.Subject] = {}
        self._unarmed: set[SubjectKey] = set()
        self._unwanted: set[SubjectKey] = set()
        self._news: set[contract.Subject] = set()
        self._missed = False
        self._looked_at = time.monotonic()
        """When everything was last looked at, because no news arrives."""
        self._woken = threading.Event()
        self._closed = False

    # --- as the connection that receives the news knows it ---

    @property
    def armed(self) -> Collection[SubjectKey]:
        """The subjects that processes that commit are to notify of."""
        with self._lock:
            return self._subjects.keys() - self._unarmed

    def listens_to(self, subject: SubjectKey) -> bool:
        """Whether it hears of this."""
        return subject in self._subjects

    def is_waiting(self, now: float, away: float) -> bool:
        """Whether a caller waits, or did so less than `away` seconds ago."""
        del now, away
        return True

    def disarmed(self) -> None:
        """No process notifies of its subjects any more."""
        with self._lock:
            self._unarmed.update(self._subjects)

    def notify(self, subject: SubjectKey | None) -> None:
        """There is news of a subject; without one, there may be news of all."""
        with self._lock:
            if subject is None:
                self._missed = True
            elif subject in self._subjects:
                self._news.add(self._subjects[subject])
        self._woken.set()

    # --- as its caller knows it ---

    def _add(self, subjects: Iterable[contract.Subject]) -> None:
        with self._lock:
            added = {subject_key(*subject): subject for subject in subjects}
            self._subjects |= added
            self._unarmed |= added.keys()
            self._unwanted -= added.keys()

    def arm(self) -> set[SubjectKey]:
        """Be notified of everything wanted from now on, of nothing else; returns what is new."""
        with self._lock:
            unwanted, unarmed = self._unwanted, self._unarmed
            self._unwanted, self._unarmed = set(), set()
        try:
            if unwanted:
                self._source.disarm(unwanted)
            if unarmed:
                self._source.arm(unarmed)
        except BaseException:
            with self._lock:
                self._unwanted |= unwanted - self._subjects.keys()
                self._unarmed |= unarmed & self._subjects.keys()
            raise
        return unarmed

    def _hear(self, timeout: float) -> Collection[contract.Subject] | None:
        """Wait for news; None if everything may have some."""
        if self._closed:
            return ()
        try:
            unarmed = self.arm()
        except StoreUnavailable:
            self._woken.wait(min(timeout, ARM_RETRY_DELAY))
            return self._heard()
        if unarmed:
            # While these were not armed, news was not sent: so the caller must look once.
            with self._lock:
                self._news.update(self._subjects[subject] for subject in unarmed)
            self._woken.set()
        until = time.monotonic() + timeout
        while True:
            left = max(0.0, until - time.monotonic())
            blind = not self._source.connected and bool(self._subjects)
            due_in = self._looked_at + POLL_INTERVAL - time.monotonic()
            pause = min(left, max(0.0, due_in)) if blind else left
            woken = self._woken.wait(pause)
            news = self._heard()
            if news is None or (blind and time.monotonic() >= self._looked_at + POLL_INTERVAL):
                self._looked_at = time.monotonic()
                return None
            if woken or left <= pause:
                return news

    def _heard(self) -> Collection[contract.Subject] | None:
        self._woken.clear()
        with self._lock:
            news, self._news = self._news, set()
            missed, self._missed = self._missed, False
        return None if missed else news

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._closed = True
        self._woken.set()
        self._source.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class PostgresListener(_NotifyListener):
    """Waits for news of some queues on one topic."""

    def __init__(self, source: Notifier, subjects: Iterable[contract.Subject]) -> None:
        super().__init__(source)
        self._add(subjects)
        self._waiting = 0
        self._left_at = time.monotonic()

    def is_waiting(self, now: float, away: float) -> bool:
        return self._waiting > 0 or now - self._left_at < away

    def wait(self, timeout: float) -> bool:
        until = time.monotonic() + timeout
        self._waiting += 1
        try:
            news = self._hear(timeout)
        finally:
            self._left_at = time.monotonic()
            self._waiting -= 1
        return news is None or bool(news) or self._left_at < until


class PostgresSubscription(_NotifyListener):
    """Hears of many subjects, which are those that somebody waits for."""

    def add(self, subjects: Iterable[contract.Subject]) -> None:
        self._add(subjects)

    def remove(self, subjects: Iterable[contract.Subject]) -> None:
        with self._lock:
            removed = {subject_key(*subject) for subject in subjects}
            for subject in removed & self._subjects.keys():
                self._news.discard(self._subjects.pop(subject))
            self._unarmed -= removed
            self._unwanted |= removed

    def wait(self, timeout: float) -> Collection[contract.Subject] | None:
        return self._hear(timeout)


logger = logging.getLogger("ackline")

RENEW_INTERVAL = 15.0
"""Seconds between signs that this process still waits, and that the connection still works."""

LISTENER_TTL = 4 * RENEW_INTERVAL
"""Seconds after which a process that gives no such sign counts as gone."""

RECONNECT_DELAYS = (0.05, 2.0)
"""Seconds between tries to listen again."""

POSITION_MESSAGE = "position"
"""The first word of a message that gives the place in a line where a job was put late."""

WAIT_AGAIN_WITHIN = 0.05
"""Seconds after a wait within which its caller is likely to wait again."""


class NotificationThread:
    """Receives notifications, and wakes the listeners that they concern."""

    def __init__(
        self, engine: Engine, channel: str, listeners: Callable[[], frozenset[_NotifyListener]]
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

    def listener_parameters(self, subjects: Iterable[SubjectKey]) -> dict[str, Any]:
        """The values of `add_listeners`."""
        return columns_of(subjects) | {"process": self._who, "seconds": LISTENER_TTL}

    # --- the thread ---

    def _run(self) -> None:
        pauses = ExponentialDelay(*RECONNECT_DELAYS)
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
            left = renewed + RENEW_INTERVAL - time.monotonic()
            ready = [descriptor for descriptor, _ in poll.poll(max(0.0, left) * 1000)]
            if self._awake in ready:
                return True
            if ready:
                connection.pgconn.consume_input()
            if time.monotonic() - renewed >= RENEW_INTERVAL:
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
        if topic == POSITION_MESSAGE:
            line, lane, rank, job = words
            self._engine.queues.lower_positions(int(line), int(lane), (float(rank), int(job)))
        else:
            [tag] = words
            self._wake(connection, (bytes.fromhex(tag), int(topic)))

    def _wake(self, connection: Connection, subject: SubjectKey) -> None:
        concerned = self._concerned(subject)
        for listener in concerned:
            listener.notify(subject)
        now = time.monotonic()
        if any(listener.is_waiting(now, WAIT_AGAIN_WITHIN) for listener in concerned):
            return
        if any(subject in listener.armed for listener in concerned):
            # First here, then in the table: a caller that waits again in between arms again.
            for listener in concerned:
                listener.disarmed()
            self._execute(
                connection, "remove_listeners", columns_of([subject]) | {"process": self._who}
            )
            self._add_listener_again(connection, subject)

    def _add_listener_again(self, connection: Connection, subject: SubjectKey) -> None:
        """A caller that waited again while its row was being removed may have armed too early."""
        armed = [listener for listener in self._listeners() if subject in listener.armed]
        if armed:
            self._execute(connection, "add_listeners", self.listener_parameters([subject]))
        for listener in armed:
            listener.notify(subject)

    def _concerned(self, subject: SubjectKey) -> list[_NotifyListener]:
        return [listener for listener in self._listeners() if listener.listens_to(subject)]

    def _renew(self, connection: Connection) -> None:
        armed = {subject for listener in self._listeners() for subject in listener.armed}
        self._execute(connection, "add_listeners", self.listener_parameters(armed))
        self._execute(connection, "delete_expired_listeners", {})

    def _execute(self, connection: Connection, name: str, values: dict[str, Any]) -> None:
        connection.execute(self._engine.statements[name], values)

    def _wake_all(self, *, stands: bool) -> None:
        self._stands = stands
        for listener in self._listeners():
            listener.notify(None)


def columns_of(subjects: Iterable[SubjectKey]) -> dict[str, Any]:
    """Subjects, as statements take them."""
    ordered = sorted(subjects)
    return {
        "queue_hashes": ByteStrings([tag for tag, _ in ordered]),
        "topics": Ints([topic for _, topic in ordered]),
    }


@functools.lru_cache(maxsize=4096)
def queue_hash(queue: QueueKey) -> bytes:
    """A short name of a queue; no two queues share it."""
    parts = f"{len(queue.tenant)}:{queue.tenant}{queue.name}"
    return hashlib.blake2b(parts.encode(), digest_size=16).digest()


def subject_key(queue: QueueKey, topic: Topic) -> SubjectKey:
    """A queue and a topic that a listener waits for, as the table `listener` has them."""
    return queue_hash(queue), TOPICS.index(topic)


@functools.lru_cache(maxsize=4096)
def _columns_of_wakeups(news: frozenset[tuple[Topic, QueueKey]]) -> dict[str, Any]:
    return columns_of(subject_key(queue, topic) for topic, queue in news)


class Notifier:
    """All listeners of one store; also notifies those of other processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        schema = hashlib.blake2b(engine.address.schema.encode(), digest_size=8).hexdigest()
        self.channel = f"ackline_{schema}"
        self._lock = threading.Lock()
        renew_locks_after_fork(self, "_lock")
        self._waiters: frozenset[_NotifyListener] = frozenset()
        self._thread: NotificationThread | None = None

    @property
    def connected(self) -> bool:
        """Whether news arrive; if not, listeners must look for themselves."""
        hearing = self._thread
        return hearing is not None and hearing.stands

    # --- notifying ---

    def notify(self, tx: Transaction) -> None:
        """After a commit, wake the listeners that wait for what it did."""
        values = {"channel": self.channel, "if_claimed": int(tx.notify_if_claimed)}
        tx.send("notify", _columns_of_wakeups(frozenset(tx.wakeups)) | values)

    def notify_at_commit(self, tx: Transaction) -> None:
        """Let a caller's commit wake the listeners of that moment, and name the jobs' places."""
        if not self._engine.address.notify:
            return
        subjects = sorted(subject_key(queue, topic) for topic, queue in tx.wakeups)
        messages = [f"{topic} {tag.hex()}" for tag, topic in subjects]
        # The places first, so that a claim that is woken looks there.
        messages[:0] = [
            f"{POSITION_MESSAGE} {line} {lane} {rank!r} {job}"
            for (line, lane), (rank, job) in tx.added_positions.items()
        ]
        tx.send("notify_at_commit", {"channel": self.channel, "messages": messages})

    # --- listening ---

    def listen(self, queues: Sequence[QueueKey], topic: Topic) -> PostgresListener:
        """Start to listen; from now on no news is missed."""
        listener = PostgresListener(self, [(queue, topic) for queue in queues])
        self._register(listener)
        try:
            listener.arm()
        except BaseException:
            listener.close()
            raise
        return listener

    def subscribe(self) -> PostgresSubscription:
        """Hear of many queues and topics."""
        subscription = PostgresSubscription(self)
        self._register(subscription)
        return subscription

    def _register(self, waiter: _NotifyListener) -> None:
        with self._lock:
            self._waiters |= {waiter}
            if self._engine.address.uses_listen:
                self._start_thread()

    def _start_thread(self) -> None:
        """Start the connection, once in a process; a forked child cannot use its parent's."""
        if self._thread is not None:
            if self._thread.here:
                return
            self._thread.stop()
        for waiter in self._waiters:
            waiter.disarmed()
        self._thread = NotificationThread(self._engine, self.channel, lambda: self._waiters)
        self._thread.start()

    def forget(self, waiter: _NotifyListener) -> None:
        """Remove a listener that was closed."""
        with self._lock:
            self._waiters -= {waiter}

    def arm(self, subjects: Collection[SubjectKey]) -> None:
        """Let processes that commit know that somebody waits."""
        hearing = self._thread
        if hearing is not None and hearing.here:
            self._engine.statement("add_listeners", hearing.listener_parameters(subjects))

    def disarm(self, subjects: Collection[SubjectKey]) -> None:
        """Let processes that commit know that this subscription waits no more."""
        hearing = self._thread
        if hearing is None or not hearing.here:
            return
        self._engine.statement("remove_listeners", hearing.listener_parameters(subjects))
        # Others of this process share its rows, and may have armed meanwhile.
        armed = {subject for waiter in self._waiters for subject in waiter.armed}
        if shared := armed.intersection(subjects):
            self.arm(shared)
            for waiter in self._waiters:
                for subject in shared:
                    if waiter.listens_to(subject):
                        waiter.notify(subject)

    def close(self) -> None:
        """Stop listening, and wake every waiting caller."""
        with self._lock:
            hearing, self._thread = self._thread, None
        if hearing is not None:
            hearing.stop()
        for waiter in self._waiters:
            waiter.notify(None)
