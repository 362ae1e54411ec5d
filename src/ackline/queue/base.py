"""What producing, consuming and operating have in common: one queue, its store, its serdes."""

from __future__ import annotations

import functools
import random
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from ackline import codec
from ackline.codec import Serde
from ackline.config import DEFAULT_SETTINGS, DEFAULTS, QueueSettings, Resolved, resolve
from ackline.cron import Schedule
from ackline.dedup import DedupFilter
from ackline.errors import InvalidPayload, JobCancelled, JobFailed, Timeout
from ackline.forks import renew_in_child
from ackline.job import NO_OPTIONS, Draft, QueueKey, Record, State
from ackline.lifecycle import Transition, Verdict
from ackline.queue import callbacks
from ackline.queue.chunks import in_chunks, is_full, payload_size
from ackline.queue.handlers import Handlers
from ackline.queue.job import Job
from ackline.queue.joining import AsyncTransaction, within
from ackline.queue.watching import Watcher
from ackline.stores.base import Joined, Receipt, Store

P = TypeVar("P")
R = TypeVar("R")

SETTINGS_AGE = 5.0
"""Seconds after which a queue's settings are read from the store again."""


class QueueBase(ABC, Generic[P, R]):
    """One queue of one tenant in one store."""

    def __init__(
        self,
        store: Store,
        key: QueueKey,
        *,
        payload: Any = Any,
        result: Any = Any,
        payload_serde: Serde,
        result_serde: Serde,
        max_payload: int = codec.DEFAULT_MAX_PAYLOAD,
    ) -> None:
        self.store = store
        self.key = key
        self.handlers = Handlers(payload)
        self.schedules: list[Schedule] = []
        self.payload_type = payload
        self.result_type = result
        self.payload_serde = payload_serde
        self.result_serde = result_serde
        self.max_payload = max_payload
        self.defaults = DEFAULTS
        """What holds where neither a job, its kind nor its queue says anything."""
        self.random = random.Random()
        self.watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()
        """What calls back for events of this queue; a running one is held by its thread."""
        self._settings = DEFAULT_SETTINGS
        self._settings_at = float("-inf")
        self._policies: dict[str, Resolved] = {}
        self._callbacks_noted = False
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()
        """Held while the settings are read, which may take as long as the store likes."""
        renew_in_child(self, "_lock", "_refreshing")

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.key.name

    def __repr__(self) -> str:
        return f"<Queue {str(self.key)!r} in {self.store.capabilities.name}>"

    def close(self) -> None:
        """Stop calling back."""
        for watcher in list(self.watchers):
            watcher.close()

    @functools.cached_property
    def _dedup(self) -> DedupFilter:
        """Which ids this process has enqueued; made when it is first asked, for it is large."""
        return DedupFilter()

    # --- encoding ---

    def encode_payload(self, value: Any) -> bytes:
        """A payload as bytes, or `InvalidPayload`."""
        return codec.encode("payload", value, self.payload_serde, self.max_payload)

    def decode_payload(self, record: Record, type: Any) -> Any:
        """A stored payload as the declared type, or `InvalidPayload`."""
        self._require_own_serde(record)
        return codec.decode("payload", record.payload, self.payload_serde, type)

    def _require_own_serde(self, record: Record) -> None:
        """Raise `InvalidPayload` if another serde than this queue's wrote the payload."""
        written_as = record.options.codec or "json"
        if written_as != self.payload_serde.name:
            raise InvalidPayload(
                f"the payload of job {record.id!r} was written as {written_as}, "
                f"this queue reads {self.payload_serde.name}: open it with the serde that wrote it"
            )

    def encode_result(self, value: Any) -> bytes | None:
        """A result as bytes; None, which is a result too, takes no room."""
        if value is None:
            return None
        return codec.encode("result", value, self.result_serde, self.max_payload)

    def decode_result(self, data: bytes | None) -> Any:
        """A stored result as the declared type."""
        if data is None:
            return None
        return codec.decode("result", data, self.result_serde, self.result_type)

    def encode_progress(self, value: Any) -> bytes:
        """How far a handler says it is, as bytes."""
        return codec.encode("progress", value, self.result_serde, self.max_payload)

    def decode_progress(self, record: Record) -> Any:
        """What a handler last said about how far it is."""
        if record.progress is None:
            return None
        return codec.decode("progress", record.progress, self.result_serde, Any)

    def outcome_of(self, record: Record) -> R:
        """The result of a finished job, or the error that it ended with."""
        match record.state:
            case State.COMPLETED:
                result: R = self.decode_result(record.result)
                return result
            case State.FAILED:
                raise JobFailed(record.id, record.failure)
            case State.CANCELLED:
                raise JobCancelled(record.id)
            case _:
                raise Timeout(f"job {record.id!r} is {record.state}, not finished")

    def wrap(self, record: Record) -> Job[P]:
        """A stored job as users hold it."""
        handler = self.handlers.get(record.kind)
        return Job(record, self, handler.payload_type if handler else self.payload_type)

    # --- policy ---

    def settings(self, max_age: float = SETTINGS_AGE) -> QueueSettings:
        """The queue's stored settings, with this process's handlers over them."""
        if time.monotonic() - self._settings_at < max_age:
            return self._settings
        with self._refreshing:
            began = time.monotonic()
            if began - self._settings_at >= max_age:  # else another thread has just read them
                self._settings = self._merged(self.stored_settings())
                self._settings_at = began
                self._policies = {}
            return self._settings

    def stored_settings(self) -> QueueSettings:
        """The settings as all processes share them."""
        found = self.store.describe(self.key.tenant, self.key.name)
        return found[0].settings if found else DEFAULT_SETTINGS

    def publish_policies(self) -> None:
        """Let other processes know the policies that this one's handlers were given.

        A sweeper elsewhere then retries a crashed worker's job as its handler asked for.
        """
        self.change_settings(self._merged)
        # What was read before may not know the handlers that were added since.
        self.settings(max_age=0)

    def change_settings(
        self, change: Callable[[QueueSettings], QueueSettings], by: str = ""
    ) -> None:
        """Change the stored settings; what others change meanwhile is not undone."""
        while True:
            stored = self.stored_settings()
            changed = change(stored)
            if changed == stored:
                return
            if self.store.configure(self.key, changed, by, expected=stored):
                return

    def policy(self, record: Record) -> Resolved:
        """What holds for a job, all levels considered."""
        settings = self.settings()
        if record.options is not NO_OPTIONS:
            return resolve(record, settings, self.defaults)
        found = self._policies.get(record.kind)
        if found is None:
            found = self._policies[record.kind] = resolve(record, settings, self.defaults)
        return found

    def _merged(self, stored: QueueSettings) -> QueueSettings:
        kinds = {**stored.kinds, **self.handlers.policies}
        return msgspec.structs.replace(stored, kinds=kinds)

    # --- handing to the store ---

    def put(self, drafts: Sequence[Draft], store: Joined | None = None) -> list[Receipt]:
        """Store jobs, or have a transaction store them that the store has joined.

        It is one step unless they are large together (see `chunks`).
        """
        self.announce(drafts)
        enqueue = (store or self.store).enqueue
        if not is_full(drafts):
            return enqueue(self.key, drafts)
        return [
            receipt
            for chunk in in_chunks(drafts, payload_size, len(drafts))
            for receipt in enqueue(self.key, chunk)
        ]

    def announce(self, drafts: Sequence[Draft]) -> None:
        """Before the first job that wants a callback is there, those who make them must know."""
        if not self._callbacks_noted and callbacks.wanted_by(drafts):
            callbacks.note(self.store, self.key)
            self._callbacks_noted = True

    def apply(
        self, transitions: Sequence[Transition], connection: object | None = None
    ) -> list[Verdict]:
        """Hand decided transitions to the store."""
        with within(self.store, connection) as store:
            return store.apply(self.key, transitions)

    @abstractmethod
    def draft(self, payload: Any, options: Any) -> Draft: ...

    @abstractmethod
    def complete(
        self, job: Job[Any], result: Any = None, *, connection: object | None = None
    ) -> None: ...

    @abstractmethod
    async def complete_async(
        self, job: Job[Any], result: Any, connection: AsyncTransaction
    ) -> None: ...

    @abstractmethod
    def extend(self, job: Job[Any], seconds: float) -> None: ...

    @abstractmethod
    def progress(self, job: Job[Any], value: Any) -> None: ...
