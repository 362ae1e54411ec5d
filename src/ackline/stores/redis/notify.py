"""Notifications by pub/sub: each listener and subscription has a connection of its own."""

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
"""Seconds of silence after which a listener pings the server."""

MAX_COMPLETIONS = 1000
"""The most messages that are kept for a caller that does not fetch them."""

_LENGTH = struct.Struct(">H")

RECONNECT_DELAYS = (0.05, 2.0)
"""The first and the longest delay between attempts to reconnect, in seconds."""


class PubSubConnection:
    """A connection that receives the messages of some channels.

    It reconnects by itself. Messages may have been missed until then, so the wait ends as if there
    had been one.
    """

    def __init__(
        self,
        connection: Connection,
        channels: Sequence[str],
        on_close: Callable[[PubSubConnection], None],
    ) -> None:
        self._connection = connection
        self._channels = channels
        self._on_close = on_close
        self._lock = threading.Lock()
        self._pipe_lock = threading.Lock()
        self._pipe_open = True
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        self._pid = os.getpid()
        self._subscriber: Subscriber | None = None
        self._failed = False
        self._received_at = 0.0
        self._pinged_at: float | None = None
        self._reconnect_delay = ExponentialDelay(*RECONNECT_DELAYS)
        self._closed = False
        try:
            self._subscribe()
        except BaseException:
            self.close()
            raise

    def _wait(self, timeout: float) -> bool:
        """Wait for at most `timeout` seconds; whether there may be a notification."""
        until = time.monotonic() + timeout
        with self._lock:
            while not self._closed:
                remaining = until - time.monotonic()
                notified = self._poll_once(max(0.0, min(remaining, PING_INTERVAL)))
                if notified or remaining <= 0:
                    return notified
        return True

    def wake(self) -> None:
        if self._pid != os.getpid():
            return  # the pipe is the parent's
        # Not after the pipe is closed: its descriptor may belong to another file by then.
        with self._pipe_lock, contextlib.suppress(BlockingIOError):
            if not self._pipe_open:
                return
            os.write(self._wake_writer, b"\0")

    def close(self) -> None:
        if self._pid != os.getpid():
            # In a forked child, threads that do not exist there may hold the locks.
            self._closed = True
            return
        with self._pipe_lock:
            if self._closed:
                return
            self._closed = True
        self.wake()
        with self._lock:
            self._unsubscribe()
            with self._pipe_lock:
                self._pipe_open = False
                os.close(self._wake_reader)
                os.close(self._wake_writer)
        self._on_close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _poll_once(self, seconds: float) -> bool:
        """Wait for at most `seconds`; whether there may be a notification."""
        try:
            if self._subscriber is None:
                return self._reconnect(seconds)
            if self._change_channels(self._subscriber):
                return True
            if not self._subscriber.has_messages:
                ready = _poll([self._wake_reader, self._subscriber.fileno()], seconds)
                if self._wake_reader in ready:
                    os.read(self._wake_reader, 4096)
                    return True
                if not ready:
                    self._check_connection(self._subscriber)
                    return False
            return self._read(self._subscriber)
        except (exceptions.RedisError, OSError, StoreError) as error:
            if not self._failed:
                self._failed = True
                where = self._connection.where
                logger.warning("%s: lost the connection for notifications: %s", where, error)
            self._unsubscribe()
            return True

    def _read(self, subscriber: Subscriber) -> bool:
        """Read everything that has arrived; whether it includes a message."""
        self._received_at, self._pinged_at = time.monotonic(), None
        messages = subscriber.read()
        for channel, message in messages:
            self._receive(channel, message)
        return bool(messages)

    def _request_wakeups(self) -> None:
        """Have the store send messages, now that they can be received."""

    def _change_channels(self, subscriber: Subscriber) -> bool:
        """Subscribe to channels that were added; whether to end the wait."""
        del subscriber
        return False

    def _receive(self, channel: bytes, message: bytes) -> None:
        """Handle a message."""

    def _check_connection(self, subscriber: Subscriber) -> None:
        """After a long silence, check that the server still answers."""
        now = time.monotonic()
        if self._pinged_at is not None and now - self._pinged_at > PING_INTERVAL:
            raise exceptions.ConnectionError(f"no answer to a ping for {PING_INTERVAL:g} s")
        if self._pinged_at is None and now - self._received_at > PING_INTERVAL:
            self._pinged_at = now
            subscriber.ping()

    def _reconnect(self, seconds: float) -> bool:
        delay = min(seconds, self._reconnect_delay.current)
        if _poll([self._wake_reader], delay):
            os.read(self._wake_reader, 4096)
            return True
        if delay < self._reconnect_delay.current:
            return False
        self._reconnect_delay.increase()
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
        self._reconnect_delay.reset()

    def _unsubscribe(self) -> None:
        subscriber, self._subscriber = self._subscriber, None
        if subscriber is not None:
            with contextlib.suppress(exceptions.RedisError, OSError):
                subscriber.close()


class RedisListener(PubSubConnection):
    """Waits for messages of a fixed set of channels."""

    def __init__(
        self,
        connection: Connection,
        channels: Sequence[str],
        request_wakeups: Callable[[], None],
        on_close: Callable[[PubSubConnection], None],
    ) -> None:
        self._request_store_wakeups = request_wakeups
        super().__init__(connection, channels, on_close)

    def wait(self, timeout: float) -> bool:
        return self._wait(timeout)

    def _request_wakeups(self) -> None:
        self._request_store_wakeups()


class RedisCompletionListener(RedisListener):
    """Keeps the messages about finished jobs for a caller that fetches them after each wait."""

    def __init__(self, *arguments: Any) -> None:
        self._messages: list[bytes] = []
        super().__init__(*arguments)

    def completions(self) -> list[Completion] | None:
        messages, self._messages = self._messages, []
        # There is none if the listener was woken, had to reconnect, or the wait timed out.
        if not messages or b"" in messages:
            return None
        return [_decode_completion(message) for message in messages]

    def _receive(self, channel: bytes, message: bytes) -> None:
        del channel
        self._messages.append(message)
        if len(self._messages) > MAX_COMPLETIONS:
            self._messages = [b""]


class RedisSubscription(PubSubConnection):
    """Waits for notifications of many subjects, each by its channel."""

    def __init__(
        self,
        connection: Connection,
        own_channel: str,
        channel_of: Callable[[QueueKey, Topic], str],
        request_wakeups: Callable[[Iterable[Subject]], None],
        on_close: Callable[[PubSubConnection], None],
    ) -> None:
        self._channel_of = channel_of
        self._request_store_wakeups = request_wakeups
        self._subjects: dict[bytes, Subject] = {}
        self._added: set[Subject] = set()
        self._changed = False
        """Whether the wanted channels differ from those that the server has confirmed."""
        self._subscribed_channels: set[bytes] = set()
        """The channels that the server has confirmed."""
        self._lost = False
        """Whether messages may have been missed while the connection was broken."""
        self._notified: set[Subject] = set()
        self._missed = False
        # The server knows no subscription without a channel.
        super().__init__(connection, [own_channel], on_close)

    def add(self, subjects: Iterable[Subject]) -> None:
        for subject in subjects:
            self._subjects[self._channel_of(*subject).encode()] = subject
            self._added.add(subject)
        self._changed = True

    def remove(self, subjects: Iterable[Subject]) -> None:
        for subject in subjects:
            self._subjects.pop(self._channel_of(*subject).encode(), None)
            self._added.discard(subject)
            self._notified.discard(subject)
        self._changed = True

    def wait(self, timeout: float) -> Collection[Subject] | None:
        self._wait(timeout)
        notified, self._notified = self._notified, set()
        missed, self._missed = self._missed, False
        return None if missed else notified

    def _receive(self, channel: bytes, message: bytes) -> None:
        del message
        subject = self._subjects.get(channel)
        if subject is not None:
            self._notified.add(subject)

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
        self._request_store_wakeups({*map(self._subjects.__getitem__, new), *self._added})
        self._subscribed_channels, self._changed = set(wanted), False
        self._notified |= self._added
        self._added = set()
        self._missed, self._lost = self._missed or self._lost, False
        return bool(self._missed or self._notified)


def _decode_completion(message: bytes) -> Completion:
    end = _LENGTH.size + _LENGTH.unpack_from(message)[0]
    id, has_result = message[_LENGTH.size : end].decode(), message[end : end + 1] == b"1"
    return Completion(id, message[end + 1 :] if has_result else None)


def _poll(descriptors: Sequence[int], seconds: float) -> list[int]:
    """The descriptors that are readable within this time."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]
