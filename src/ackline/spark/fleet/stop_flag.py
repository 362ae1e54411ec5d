"""How a fleet is stopped from anywhere: Spark itself would end its tasks without warning."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ackline.core.errors import StoreError
from ackline.core.ids import new_id
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.queue import Queue
from ackline.stores.contract import KeyWrite, find_key

logger = logging.getLogger("ackline")


class StopFlag:
    """Keys in the store that tell a fleet to stop: one for each queue, under the fleet's name.

    So fleets of other queues are left alone, even if they have the same name. Each `hoist` writes
    a new value, which stays. A fleet that begins later knows that the value is not meant for it,
    and does not have to delete it while workers of the stopped fleet may not have seen it yet.
    """

    def __init__(
        self, queues: Sequence[Queue[Any, Any]], fleet: str, before: Sequence[bytes] = ()
    ) -> None:
        self._before = frozenset(before)
        self._keys = [
            (queue.store, queue.key.tenant, reserved_key(KeyFamily.FLEETS, queue.key.name, fleet))
            for queue in queues
        ]

    def hoist(self) -> None:
        """Ask the fleet to stop."""
        for store, tenant, key in self._keys:
            store.write_keys(tenant, [KeyWrite(key=key, value=new_id().encode())])

    def says(self) -> tuple[bytes, ...]:
        """The values of its keys now."""
        found = (find_key(store, tenant, key) for store, tenant, key in self._keys)
        return tuple(entry.value for entry in found if entry is not None)

    @property
    def raised(self) -> bool:
        """Whether the fleet was asked to stop; False if the store cannot be reached right now."""
        try:
            return not self._before.issuperset(self.says())
        except StoreError as error:
            logger.warning("cannot ask the store whether to stop: %s", error)
            return False
