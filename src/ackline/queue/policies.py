"""The policies of a queue's jobs: from its settings and from this process's handlers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ackline.core.config import (
    DEFAULT_SETTINGS,
    DEFAULTS,
    QueueSettings,
    ResolvedPolicy,
    max_attempts_of,
    resolve_policy,
    suggestion_for,
    validated_settings,
)
from ackline.core.errors import ConfigError, StoreError
from ackline.core.fork_safety import renew_locks_after_fork
from ackline.core.job import NO_OPTIONS, QueueKey, Record
from ackline.queue.handlers import Handlers
from ackline.queue.metadata.local_max_attempts import ALL_KINDS, record_max_attempts
from ackline.stores.contract import Store

SETTINGS_TTL = 5.0
"""Seconds after which a queue's settings are read from the store again."""


class Policies:
    """The policies of one queue, re-read from the store from time to time."""

    def __init__(self, store: Store, key: QueueKey, handlers: Handlers) -> None:
        self.defaults = DEFAULTS
        """The defaults, where neither a job, its kind nor its queue sets anything."""
        self._store = store
        self._key = key
        self._handlers = handlers
        self._settings = DEFAULT_SETTINGS
        self._settings_at = float("-inf")
        self._of_kind: dict[str, ResolvedPolicy] = {}
        self._unrecorded: dict[str, int] = {}
        """Attempts that other processes do not know of yet, see `local_max_attempts`."""
        self._refreshing = threading.Lock()
        """Locked while the settings are read, which takes as long as the store takes to respond."""
        renew_locks_after_fork(self, "_refreshing")

    def of(self, record: Record) -> ResolvedPolicy:
        """The policy of a job, with all levels resolved."""
        settings = self.settings()
        if self._unrecorded:
            own, self._unrecorded = self._unrecorded, {}
            self._record(own)
        if record.options is not NO_OPTIONS:
            return resolve_policy(record, settings, self.defaults)
        policy = self._of_kind.get(record.kind)
        if policy is None:
            policy = self._of_kind[record.kind] = resolve_policy(record, settings, self.defaults)
        return policy

    def last_known(self, record: Record) -> ResolvedPolicy:
        """The policy of a job by the settings as last read, for when the store fails."""
        return resolve_policy(record, self._settings, self.defaults)

    def settings(self, max_age: float = SETTINGS_TTL) -> QueueSettings:
        """The queue's stored settings, overridden by this process's handlers."""
        if time.monotonic() - self._settings_at < max_age:
            return self._settings
        with self._refreshing:
            started_at = time.monotonic()
            if started_at - self._settings_at >= max_age:  # else another thread has just read them
                stored = self.stored_settings()
                self._settings = self._merged(stored)
                self._unrecorded = self._local_max_attempts(stored)
                self._settings_at = started_at
                self._of_kind = {}
            return self._settings

    def stored_settings(self) -> QueueSettings:
        """The stored settings, shared by all processes."""
        found = self._store.describe(self._key.tenant, self._key.name)
        return found[0].settings if found else DEFAULT_SETTINGS

    def change(
        self, change: Callable[[QueueSettings], QueueSettings], by: str = ""
    ) -> QueueSettings:
        """Change the stored settings, and return them; concurrent changes are not undone."""
        while True:
            stored = self.stored_settings()
            changed = change(stored)
            if changed == stored or self._store.configure(self._key, changed, by, expected=stored):
                return changed

    def with_changes(self, settings: QueueSettings, changes: Mapping[str, Any]) -> QueueSettings:
        """Settings with some of them changed; raises `ConfigError` if they are invalid."""
        known = QueueSettings.__struct_fields__
        if unknown := changes.keys() - set(known):
            raise ConfigError(
                f"queue {self._key} has no setting {', '.join(sorted(unknown))}"
                f"{suggestion_for(unknown, known)}"
            )
        try:
            return validated_settings(msgspec.structs.replace(settings, **changes))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"invalid settings for queue {self._key}: {error}") from error

    def publish(self) -> None:
        """Store the policies of this process's handlers, so that other processes know them.

        Another process that recovers the job of a crashed worker then applies its handler's policy.
        """

        def merge(stored: QueueSettings) -> QueueSettings:
            # Before they are replaced: the process that published them may still apply them.
            self._record(self._local_max_attempts(stored))
            return self._merged(stored)

        self.change(merge)
        # The settings read before may lack handlers that were added since.
        self.settings(max_age=0)

    def _local_max_attempts(self, stored: QueueSettings) -> dict[str, int]:
        """The attempts that handlers set, by kind: those of this process, and published ones."""
        published = [(kind, policy) for kind, policy in stored.kinds.items() if policy.from_handler]
        own: dict[str, int] = {}
        for kind, policy in (*published, *self._handlers.policies.items()):
            own[kind] = max(own.get(kind, 0), max_attempts_of(policy))
        if self.defaults.max_attempts > DEFAULTS.max_attempts:
            own[ALL_KINDS] = self.defaults.max_attempts
        return own

    def _record(self, own: Mapping[str, int]) -> None:
        # If this fails, it is tried when the settings are read again: jobs come first.
        with contextlib.suppress(StoreError):
            record_max_attempts(self._store, self._key, own)

    def _merged(self, stored: QueueSettings) -> QueueSettings:
        # Earlier policies of this process's handlers are replaced; configured ones stay.
        others = {
            kind: policy
            for kind, policy in stored.kinds.items()
            if not policy.from_handler or kind not in self._handlers.kinds
        }
        return msgspec.structs.replace(stored, kinds={**others, **self._handlers.policies})
