"""Which tenants have jobs with callbacks."""

from __future__ import annotations

import time

from ackline.queue.metadata.callbacks import callbacks_since
from ackline.stores.contract import Store

CHECK_EVERY = 1.0
"""Seconds after which to check again whether a tenant's jobs have callbacks."""


class CallbackTenants:
    """The tenants with jobs that have, or once had, callbacks; as of at most a second ago."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: set[str] = set()
        self._checked_at: dict[str, float] = {}

    def includes(self, tenant: str) -> bool:
        """Whether jobs of this tenant may have callbacks. Blocks."""
        if tenant in self._found:
            return True
        now = time.monotonic()
        if now < self._checked_at.get(tenant, float("-inf")) + CHECK_EVERY:
            return False
        self._checked_at[tenant] = now
        if callbacks_since(self._store, tenant) is not None:
            self._found.add(tenant)
        return tenant in self._found
