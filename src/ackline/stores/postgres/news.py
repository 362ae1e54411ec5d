"""Wake-ups by NOTIFY: one connection listens for all listeners of a store.

A NOTIFY makes commits wait for each other, so it is sent only while somebody waits: an armed
listener has a row in the table `waiting`, and every process looks there after its commits. If news
arrives while nobody waits on a listener, the listener is disarmed; when its caller waits again, it
is armed again, and the caller looks once.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Collection, Sequence

from ackline.forks import renew_in_child
from ackline.job import QueueKey
from ackline.stores.base import TOPICS, Topic
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.hearing import PLACE, Hearing, columns_of
from ackline.stores.postgres.listen import (
    PostgresListener,
    PostgresSubscription,
    Subject,
    Waiter,
)
from ackline.stores.postgres.transaction import Transaction


@functools.lru_cache(maxsize=4096)
def tag_of(queue: QueueKey) -> bytes:
    """A short name of a queue; no two queues share it."""
    parts = f"{len(queue.tenant)}:{queue.tenant}{queue.name}"
    return hashlib.blake2b(parts.encode(), digest_size=16).digest()


def subject_of(queue: QueueKey, topic: Topic) -> Subject:
    """A queue and a topic that a listener waits for, as the table `waiting` has them."""
    return tag_of(queue), TOPICS.index(topic)


class News:
    """All listeners of one store; also notifies those of other processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        schema = hashlib.blake2b(engine.address.schema.encode(), digest_size=8).hexdigest()
        self.channel = f"ackline_{schema}"
        self._lock = threading.Lock()
        renew_in_child(self, "_lock")
        self._waiters: frozenset[Waiter] = frozenset()
        self._hearing: Hearing | None = None

    @property
    def hears(self) -> bool:
        """Whether news arrive; if not, listeners must look for themselves."""
        hearing = self._hearing
        return hearing is not None and hearing.stands

    # --- notifying ---

    def tell(self, tx: Transaction) -> None:
        """After a commit, wake the listeners that wait for what it did."""
        subjects = [subject_of(queue, topic) for topic, queue in tx.news]
        tx.send("notify", columns_of(subjects) | {"channel": self.channel})

    def tell_at_commit(self, tx: Transaction) -> None:
        """Let a caller's commit wake the listeners of that moment, and name the jobs' places."""
        if not self._engine.address.notify:
            return
        subjects = sorted(subject_of(queue, topic) for topic, queue in tx.news)
        messages = [f"{topic} {tag.hex()}" for tag, topic in subjects]
        # The places first, so that a claim that is woken looks there.
        messages[:0] = [
            f"{PLACE} {line} {lane} {rank!r} {job}"
            for (line, lane), (rank, job) in tx.places.items()
        ]
        tx.send("notify_at_commit", {"channel": self.channel, "messages": messages})

    # --- listening ---

    def listen(self, queues: Sequence[QueueKey], topic: Topic) -> PostgresListener:
        """Start to listen; from now on no news is missed."""
        subjects = frozenset(subject_of(queue, topic) for queue in queues)
        listener = PostgresListener(self, subjects)
        self._register(listener)
        try:
            listener.arm()
        except BaseException:
            listener.close()
            raise
        return listener

    def subscribe(self) -> PostgresSubscription:
        """Hear of many queues and topics."""
        subscription = PostgresSubscription(self, subject_of)
        self._register(subscription)
        return subscription

    def _register(self, waiter: Waiter) -> None:
        with self._lock:
            self._waiters |= {waiter}
            if self._engine.address.listens:
                self._begin_to_hear()

    def _begin_to_hear(self) -> None:
        """Start the connection, once in a process; a forked child cannot use its parent's."""
        if self._hearing is not None:
            if self._hearing.here:
                return
            self._hearing.stop()
        for waiter in self._waiters:
            waiter.disarmed()
        self._hearing = Hearing(self._engine, self.channel, lambda: self._waiters)
        self._hearing.start()

    def forget(self, waiter: Waiter) -> None:
        """Remove a listener that was closed."""
        with self._lock:
            self._waiters -= {waiter}

    def arm(self, subjects: Collection[Subject]) -> None:
        """Let processes that commit know that somebody waits."""
        hearing = self._hearing
        if hearing is not None and hearing.here:
            self._engine.statement("arm", hearing.armed_values(subjects))

    def disarm(self, subjects: Collection[Subject]) -> None:
        """Let processes that commit know that this subscription waits no more."""
        hearing = self._hearing
        if hearing is None or not hearing.here:
            return
        self._engine.statement("disarm", hearing.armed_values(subjects))
        # Others of this process share its rows, and may have armed meanwhile.
        armed = {subject for waiter in self._waiters for subject in waiter.armed}
        if shared := armed.intersection(subjects):
            self.arm(shared)
            for waiter in self._waiters:
                for subject in shared:
                    if waiter.concerns(subject):
                        waiter.tell(subject)

    def close(self) -> None:
        """Stop listening, and wake every waiting caller."""
        with self._lock:
            hearing, self._hearing = self._hearing, None
        if hearing is not None:
            hearing.stop()
        for waiter in self._waiters:
            waiter.tell(None)
