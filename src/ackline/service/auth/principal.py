"""An authenticated identity: what it may do, and what it can see."""

from __future__ import annotations

from typing import assert_never

import msgspec

from ackline.core.events import Event
from ackline.core.job import Record
from ackline.queues import DEFAULT_TENANT
from ackline.service.auth.permissions import RULES, Impact, Permission, Scope, permission_for_key
from ackline.stores.contract import KeyValue, QueueInfo, StoreInfo


class Principal(msgspec.Struct, frozen=True):
    """An authenticated caller: its tenant, and the queues and kinds it is restricted to, if any."""

    tenant: str
    scopes: frozenset[Scope]
    queues: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    name: str = ""
    """Its name in the journal."""
    operator: bool = False
    """Whether it may read the metrics of all tenants."""
    until: float | None = None
    """When it has to authenticate again; its streams end at that time."""

    # --- what it may do ---

    def may(self, permission: Permission) -> bool:
        """Whether it has this permission."""
        rule = RULES[permission]
        return bool(self.scopes & rule.scopes) and self.is_unrestricted_for(rule.impact)

    def is_unrestricted_for(self, impact: Impact) -> bool:
        """Whether none of its restrictions apply to what has this impact."""
        match impact:
            case Impact.OWN_JOBS:
                return True
            case Impact.ALL_KINDS:
                return self.kinds is None
            case Impact.TENANT:
                return self.kinds is None and self.queues is None
            case _:
                assert_never(impact)

    def may_use_queue(self, queue: str) -> bool:
        """Whether it may use this queue."""
        return self.queues is None or queue in self.queues

    def may_use_kind(self, kind: str) -> bool:
        """Whether it may use jobs of this kind; jobs of other kinds do not exist for it."""
        return self.kinds is None or kind in self.kinds

    def may_read_keys(self, prefix: tuple[str, ...]) -> bool:
        """Whether it may read keys with this prefix.

        Callers that may read jobs may also read reserved keys that affect only their own kinds.
        """
        permission = permission_for_key(prefix)
        own = permission is not Permission.READ_KEYS and self.is_unrestricted_for(
            RULES[permission].impact
        )
        return self.may(permission) or (own and self.may(Permission.READ_JOBS))

    # --- what it can see ---

    def can_see(self, found: Record | Event | QueueInfo | KeyValue) -> bool:
        """Whether something of its tenant exists for it."""
        match found:
            case Record():
                return self.may_use_kind(found.kind)
            case Event():
                own = found.queue.tenant == self.tenant and self.may_use_queue(found.queue.name)
                return own and (not found.id or self.may_use_kind(found.kind))
            case QueueInfo():
                return self.may_use_queue(found.key.name)
            case KeyValue():
                own = permission_for_key(found.key) is not Permission.READ_KEYS
                queue = found.key[2:3] if own else ()
                return self.may_read_keys(found.key) and all(map(self.may_use_queue, queue))
            case _:
                assert_never(found)

    def redact_job(self, job: Record) -> Record:
        """A job, without its contents if the caller may not read jobs."""
        if self.may(Permission.READ_JOBS):
            return job
        result = job.result if self.may(Permission.READ_RESULT) else None
        job = msgspec.structs.replace(job.without_handler_data(), result=result)
        if self.may(Permission.SETTLE):
            return job
        options = msgspec.structs.replace(job.options, keys_if_undelivered=(), callback_url=None)
        return msgspec.structs.replace(job, options=options)

    def redact_queue(self, info: QueueInfo) -> QueueInfo:
        """A queue, without its counts if the caller may only read or change its settings."""
        if self.may(Permission.READ_QUEUES) or self.may(Permission.CONFIGURE):
            return info
        return msgspec.structs.replace(info, counts={})

    def redact_store(self, info: StoreInfo) -> StoreInfo:
        """A store, without its location and details, which only concern the service."""
        issues = info.issues if self.may(Permission.READ_HEALTH_ISSUES) else ()
        return msgspec.structs.replace(info, location="", details={}, issues=issues)


LOOPBACK_PRINCIPAL = Principal(DEFAULT_TENANT, frozenset(Scope), name="http", operator=True)
"""The principal of every caller on this machine, without auth."""
