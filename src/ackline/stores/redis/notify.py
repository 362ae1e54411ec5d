"""Wake-ups by pub/sub, each listener and each subscription on a connection of its own."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Self

from redis import exceptions

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import StoreError
from ackline.core.job import QueueKey
from ackline.stores.contract import Completion, Subject, Topic
from ackline.stores.redis.io.client import Subscriber
from ackline.stores.redis.io.connection import Connection

logger = logging.getLogger("ackline")

PING_INTERVAL = 15.0
"""Seconds of silence after which a listener asks the server whether it is still there."""

MAX_COMPLETIONS = 1000
"""The most messages kept for a caller that never fetches them."""

_LENGTH = struct.Struct(">H")

RECONNECT_DELAYS = (0.05, 2.0)
"""Seconds between tries to listen again."""


class PubSubConnection:
    """A connection that receives messages of some channels.

    A broken connection is made anew. Messages may have been missed meanwhile, so the wait then
    ends as if there were news: nobody stays deaf.
    """

    def __init__(
        self,
        connection: Connection,
        channels: Sequence[str],
        forget: Callable[[PubSubConnection], None],
    ) -> None:
        self._connection = connection
        self._channels = channels
        self._forget = forget
        self._lock = threading.Lock()
        self._pipe = threading.Lock()
        self._piped = True
        self._awake, self._waker = os.pipe()
        os.set_blocking(self._awake, False)
        os.set_blocking(self._waker, False)
        self._pid = os.getpid()
        self._subscriber: Subscriber | None = None
        self._failed = False
        self._received_at = 0.0
        self._pinged_at: float | None = None
        self._pauses = ExponentialDelay(*RECONNECT_DELAYS)
        self._closed = False
        try:
            self._subscribe()
        except BaseException:
            self.close()
            raise

    def _wait(self, timeout: float) -> bool:
        """Wait for at most `timeout`; whether something has come."""
        until = time.monotonic() + timeout
        with self._lock:
            while not self._closed:
                left = until - time.monotonic()
                news = self._poll_once(max(0.0, min(left, PING_INTERVAL)))
                if news or left <= 0:
                    return news
        return True

    def wake(self) -> None:
        if self._pid != os.getpid():
            return  # the pipe is the parent's
        # Not once the pipe is closed: its descriptor may belong to another file by then.
        with self._pipe, contextlib.suppress(BlockingIOError):
            if not self._piped:
                return
            os.write(self._waker, b"\0")

    def close(self) -> None:
        if self._pid != os.getpid():
            # In a forked child, the locks may be held by threads that do not exist there.
            self._closed = True
            return
        with self._pipe:
            if self._closed:
                return
            self._closed = True
        self.wake()
        with self._lock:
            self._unsubscribe()
            with self._pipe:
                self._piped = False
                os.close(self._awake)
                os.close(self._waker)
        self._forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _poll_once(self, seconds: float) -> bool:
        """Wait for at most `seconds`; whether there may be news."""
        try:
            if self._subscriber is None:
                return self._listen_again(seconds)
            if self._change_channels(self._subscriber):
                return True
            if not self._subscriber.has_messages:
                ready = _poll([self._awake, self._subscriber.fileno()], seconds)
                if self._awake in ready:
                    os.read(self._awake, 4096)
                    return True
                if not ready:
                    self._check_connection(self._subscriber)
                    return False
            return self._read(self._subscriber)
        except (exceptions.RedisError, OSError, StoreError) as error:
            if not self._failed:
                self._failed = True
                where = self._connection.where
                logger.warning("%s: the connection for news broke: %s", where, error)
            self._unsubscribe()
            return True

    def _read(self, subscriber: Subscriber) -> bool:
        """Read everything that has come; whether it includes a message."""
        self._received_at, self._pinged_at = time.monotonic(), None
        messages = subscriber.read()
        for channel, message in messages:
            self._receive(channel, message)
        return bool(messages)

    def _request_wakeups(self) -> None:
        """Have the store send messages, now that they arrive."""

    def _change_channels(self, subscriber: Subscriber) -> bool:
        """Hear of other channels, if any were added or removed; whether to end the wait."""
        del subscriber
        return False

    def _receive(self, channel: bytes, message: bytes) -> None:
        """A message has come."""

    def _check_connection(self, subscriber: Subscriber) -> None:
        """After a long silence, check whether the server is still there."""
        now = time.monotonic()
        if self._pinged_at is not None and now - self._pinged_at > PING_INTERVAL:
            raise exceptions.ConnectionError(f"a ping was not answered for {PING_INTERVAL:g} s")
        if self._pinged_at is None and now - self._received_at > PING_INTERVAL:
            self._pinged_at = now
            subscriber.ping()

    def _listen_again(self, seconds: float) -> bool:
        pause = min(seconds, self._pauses.current)
        if _poll([self._awake], pause):
            os.read(self._awake, 4096)
            return True
        if pause < self._pauses.current:
            return False
        self._pauses.increase()
        self._subscribe()
        return True

    def _subscribe(self) -> None:
        subscriber = self._connection.subscribe(self._channels)
        try:
            self._request_wakeups()
        except BaseException:
            subscriber.close()
            raise
        self._subscriber = subscriber
        self._failed = False
        self._received_at, self._pinged_at = time.monotonic(), None
        self._pauses.reset()

    def _unsubscribe(self) -> None:
        subscriber, self._subscriber = self._subscriber, None
        if subscriber is not None:
            with contextlib.suppress(exceptions.RedisError, OSError):
                subscriber.close()


class RedisListener(PubSubConnection):
    """Waits for messages of some channels, which are always the same."""

    def __init__(
        self,
        connection: Connection,
        channels: Sequence[str],
        arm: Callable[[], None],
        forget: Callable[[PubSubConnection], None],
    ) -> None:
        self._request_wakeups_of = arm
        super().__init__(connection, channels, forget)

    def wait(self, timeout: float) -> bool:
        return self._wait(timeout)

    def _request_wakeups(self) -> None:
        self._request_wakeups_of()


class RedisCompletionListener(RedisListener):
    """Keeps the messages about ended jobs, for a caller that fetches them after each wait."""

    def __init__(self, *given: Any) -> None:
        self._ends: list[bytes] = []
        super().__init__(*given)

    def completions(self) -> list[Completion] | None:
        ends, self._ends = self._ends, []
        # There is none if the listener was woken, had to subscribe again, or the wait timed out.
        return None if not ends or b"" in ends else [_read_completion(message) for message in ends]

    def _receive(self, channel: bytes, message: bytes) -> None:
        del channel
        self._ends.append(message)
        if len(self._ends) > MAX_COMPLETIONS:
            self._ends = [b""]


class RedisSubscription(PubSubConnection):
    """Hears of many subjects, each by its channel."""

    def __init__(
        self,
        connection: Connection,
        own_channel: str,
        channel_of: Callable[[QueueKey, Topic], str],
        arm: Callable[[Iterable[Subject]], None],
        forget: Callable[[PubSubConnection], None],
    ) -> None:
        self._channel_of = channel_of
        self._request_wakeups_of = arm
        self._subjects: dict[bytes, Subject] = {}
        self._added: set[Subject] = set()
        self._changed = False
        """Whether other channels are wanted than the server has confirmed."""
        self._subscribed_channels: set[bytes] = set()
        """The channels that the server has confirmed."""
        self._lost = False
        """Whether messages may have been missed while the connection was broken."""
        self._news: set[Subject] = set()
        self._missed = False
        # Without any channel, it would be no subscription.
        super().__init__(connection, [own_channel], forget)

    def add(self, subjects: Iterable[Subject]) -> None:
        for subject in subjects:
            self._subjects[self._channel_of(*subject).encode()] = subject
            self._added.add(subject)
        self._changed = True

    def remove(self, subjects: Iterable[Subject]) -> None:
        for subject in subjects:
            self._subjects.pop(self._channel_of(*subject).encode(), None)
            self._added.discard(subject)
            self._news.discard(subject)
        self._changed = True

    def wait(self, timeout: float) -> Collection[Subject] | None:
        self._wait(timeout)
        news, self._news = self._news, set()
        missed, self._missed = self._missed, False
        return None if missed else news

    def _receive(self, channel: bytes, message: bytes) -> None:
        del message
        subject = self._subjects.get(channel)
        if subject is not None:
            self._news.add(subject)

    def _subscribe(self) -> None:
        super()._subscribe()
        self._lost = self._lost or bool(self._subscribed_channels)
        self._subscribed_channels = set()
        self._changed = True

    def _change_channels(self, subscriber: Subscriber) -> bool:
        if not self._changed:
            return False
        wanted = self._subjects.keys()
        new = list(wanted - self._subscribed_channels)
        subscriber.unsubscribe(list(self._subscribed_channels - wanted))
        subscriber.subscribe(new)
        self._request_wakeups_of({*map(self._subjects.__getitem__, new), *self._added})
        self._subscribed_channels, self._changed = set(wanted), False
        self._news |= self._added
        self._added = set()
        self._missed, self._lost = self._missed or self._lost, False
        return bool(self._missed or self._news)


def _read_completion(message: bytes) -> Completion:
    end = _LENGTH.size + _LENGTH.unpack_from(message)[0]
    id, has_result = message[_LENGTH.size : end].decode(), message[end : end + 1] == b"1"
    return Completion(id, message[end + 1 :] if has_result else None)


def _poll(descriptors: Sequence[int], seconds: float) -> list[int]:
    """The descriptors that can be read within this time."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]
