"""One request's access to the store: the only way from a request to a queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import msgspec
from litestar.types import HTTPScope, Receive

from ackline.core.errors import JobNotFound
from ackline.core.job import Draft, QueueKey, Record, State
from ackline.core.lifecycle import STATES_THAT_KEEP_ID
from ackline.core.limits import require_name
from ackline.queues import Queues
from ackline.service.auth.permissions import RULES, Impact, Permission, Scope, is_read_only
from ackline.service.auth.principal import Principal
from ackline.service.http.body_memory import received_body
from ackline.service.http.problems import Conflict, Forbidden, NotFound, TooLarge
from ackline.stores.contract import QueueInfo, find_each_job

if TYPE_CHECKING:
    from ackline.service.queues import MeteredQueue
    from ackline.service.runtime import Runtime
    from ackline.service.threads.slow_work import Chunks

T = TypeVar("T")
P = ParamSpec("P")


WAITING_QUEUES = "ackline.names"
"""Where a request's scope has the queue names that it waits for, and whose they are."""

REPLACEABLE = frozenset(State) - STATES_THAT_KEEP_ID
"""Jobs that an enqueue of the same id replaces."""


def id_conflict(id: str) -> Conflict:
    """The error if an id belongs to a failed or cancelled job that the caller may not touch."""
    return Conflict(f"the id {id!r} is taken by a job that your token is not for")


class Caller:
    """One request's access to the store: each act names the scope that it needs."""

    def __init__(
        self, runtime: Runtime, principal: Principal, receive: Receive, scope: HTTPScope
    ) -> None:
        self.runtime = runtime
        self.principal = principal
        self.receive = receive
        """The ASGI channel that reports when the client leaves."""
        self.tenant = principal.tenant
        self._scope = scope

    def count_waiting_queues(self, names: int) -> None:
        """Count the queues that this request waits for until it is over; refuses too many.

        What the request sent is not kept meanwhile.
        """
        self.runtime.limits.count_waiting_queues(self.tenant, names)
        received_body(self._scope).release()
        cast("dict[str, Any]", self._scope)[WAITING_QUEUES] = (self.tenant, names)

    async def run_slow(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something that blocks for longer than a moment: a search, an act on many jobs."""
        return await self.runtime.slow_work.call(self.tenant, function, *args, **kwargs)

    async def run_chunks(self, steps: Chunks[T]) -> T:
        """Take steps that block, with room for other tenants' work between any two."""
        return await self.runtime.slow_work.run_chunks(self.tenant, steps)

    @property
    def by(self) -> str:
        """Its name in the journal."""
        return self.principal.name

    def require(self, *accesses: Permission) -> None:
        """Refuse a caller that may do none of these."""
        if any(map(self.principal.may, accesses)):
            return
        rules = [RULES[access] for access in accesses]
        scopes = frozenset[Scope]().union(*(rule.scopes for rule in rules))
        if not self.principal.scopes & scopes:
            words = " or ".join(sorted(scopes))
            raise Forbidden(f"your token lacks the scope {words}, which this needs")
        for rule in rules:
            self.require_unrestricted(rule.impact)

    def require_unrestricted(self, reach: Impact) -> None:
        """Refuse an act on more than a limited caller's own queues and kinds."""
        if not self.principal.is_unrestricted_for(reach):
            raise Forbidden(
                "your token is limited to some kinds or queues of its tenant, "
                f"and this affects {reach}"
            )

    def require_queue(self, name: str) -> None:
        """Refuse a queue that the caller may not use."""
        require_name("queue", name)
        if not self.principal.may_use_queue(name):
            raise Forbidden(f"your token is not for queue {name!r}")

    def queue(self, name: str, access: Permission) -> MeteredQueue:
        """A queue that the caller may do this with, whether it exists or not."""
        self.require(access)
        self.require_queue(name)
        return self.runtime.queue(QueueKey(self.tenant, name), keep=not is_read_only(access))

    async def existing_queue(self, name: str, access: Permission) -> MeteredQueue:
        """Like `queue`, but it must exist: a typing error must not look like an empty queue."""
        queue = self.queue(name, access)
        await self.describe(name, access)
        return queue

    async def describe(self, name: str, access: Permission) -> QueueInfo:
        """The store's description of a queue, or `NotFound`."""
        key = self.queue(name, access).sync.key
        found = await self.runtime.call(self.runtime.store.describe, key.tenant, key.name)
        if not found:
            raise NotFound(f"there is no queue {name!r}; it comes into being with its first job")
        return found[0]

    async def job(self, queue: str, id: str, access: Permission) -> tuple[MeteredQueue, Record]:
        """A job with its queue; `JobNotFound` also if it is of a kind that is not the caller's."""
        found = self.queue(queue, access)
        [record] = await self.runtime.call(self.runtime.store.get, found.sync.key, [id])
        if record is None or not self.principal.can_see(record):
            raise JobNotFound(queue, id)
        return found, record

    def require_kind(self, kind: str) -> None:
        """Refuse a kind that the caller may not use."""
        if not self.principal.may_use_kind(kind):
            raise Forbidden(f"your token is not for jobs of kind {kind!r}")

    def can_see_each(self, queue: QueueKey, ids: Sequence[str]) -> list[bool]:
        """For each id: whether its job does not exist, or the caller may touch it. This blocks."""
        if self.principal.kinds is None:
            return [True] * len(ids)
        found = find_each_job(self.runtime.store, queue, ids)
        return [job is None or self.principal.can_see(job) for job in found]

    async def require_replaceable(self, queue: MeteredQueue, ids: Sequence[str]) -> None:
        """Refuse to replace failed jobs that the caller may not touch."""
        if self.principal.kinds is not None and ids:
            await self.runtime.call(self.require_replaceable_blocking, queue.sync.key, ids)

    def require_replaceable_blocking(self, queue: QueueKey, ids: Sequence[str]) -> None:
        """Like `require_own`, for code that may block."""
        if self.principal.kinds is None:
            return
        for job in find_each_job(self.runtime.store, queue, ids):
            if job is not None and job.state in REPLACEABLE and not self.principal.can_see(job):
                raise id_conflict(job.id)

    def limited_to_kinds(self, draft: Draft) -> Draft:
        """A draft that replaces no failed job that the caller may not touch."""
        kinds = self.principal.kinds
        if kinds is None:
            return draft
        wanted = kinds if draft.replaces is None else kinds & draft.replaces
        return msgspec.structs.replace(draft, replaces=wanted)

    def kinds(self, wanted: Iterable[str] | None) -> frozenset[str] | None:
        """The kinds to hand out: those wanted, if allowed; by default all that are allowed."""
        requested = frozenset(wanted) if wanted is not None else None
        for kind in requested or ():
            require_name("kind", kind)
            self.require_kind(kind)
        return requested if requested is not None else self.principal.kinds

    def require_batch(self, size: int) -> None:
        """Refuse a batch that is too large for one request."""
        most = self.runtime.settings.max_batch
        if size > most:
            raise TooLarge(f"{size:,} at once; the limit is {most:,}: send several requests")

    def require_undelivered_keys(self, keys: Collection[object] | None) -> None:
        """Refuse `keys_if_undelivered` to a limited caller: keys belong to the whole tenant."""
        if keys:
            self.require(Permission.SET_UNDELIVERED_KEYS)

    def tenant_queues(self, access: Permission) -> Queues:
        """The tenant's keys and its list of queues."""
        self.require(access)
        return Queues(self.runtime.store, self.tenant)
