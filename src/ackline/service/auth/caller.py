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
from ackline.service.limits.stream_slots import WAITING_QUEUES
from ackline.stores.contract import QueueInfo, find_each_job

if TYPE_CHECKING:
    from ackline.service.queues import MeteredQueue
    from ackline.service.runtime import Runtime
    from ackline.service.threads.slow_work import Chunks

T = TypeVar("T")
P = ParamSpec("P")


REPLACEABLE = frozenset(State) - STATES_THAT_KEEP_ID
"""The states of jobs that an enqueue of the same id replaces."""


def id_conflict(id: str) -> Conflict:
    """The error for an id of a failed or cancelled job that the caller may not access."""
    return Conflict(f"the id {id!r} is taken by a job that your token cannot access")


class Caller:
    """One request's access to the store; each method names the permission that it needs."""

    def __init__(
        self, runtime: Runtime, principal: Principal, receive: Receive, scope: HTTPScope
    ) -> None:
        self.runtime = runtime
        self.principal = principal
        self.receive = receive
        """The ASGI channel that reports when the client disconnects."""
        self.tenant = principal.tenant
        self._scope = scope

    def count_waiting_queues(self, queues: int) -> None:
        """Count the queues that this request waits for until it ends; refuse too many.

        The body of the request is released, as it is no longer needed.
        """
        self.runtime.limits.count_waiting_queues(self.tenant, queues)
        received_body(self._scope).release()
        cast("dict[str, Any]", self._scope)[WAITING_QUEUES] = (self.tenant, queues)

    async def run_slow(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something that blocks for long, such as a search or an operation on many jobs."""
        return await self.runtime.slow_work.call(self.tenant, function, *args, **kwargs)

    async def run_chunks(self, chunks: Chunks[T]) -> T:
        """Run blocking work in chunks; other tenants get the thread in between."""
        return await self.runtime.slow_work.run_chunks(self.tenant, chunks)

    @property
    def by(self) -> str:
        """The caller's name in the journal."""
        return self.principal.name

    def require(self, *permissions: Permission) -> None:
        """Refuse a caller that has none of these permissions."""
        if any(map(self.principal.may, permissions)):
            return
        rules = [RULES[permission] for permission in permissions]
        scopes = frozenset[Scope]().union(*(rule.scopes for rule in rules))
        if not self.principal.scopes & scopes:
            names = " or ".join(sorted(scopes))
            raise Forbidden(f"this needs the scope {names}, which your token lacks")
        for rule in rules:
            self.require_unrestricted(rule.impact)

    def require_unrestricted(self, impact: Impact) -> None:
        """Refuse what affects more than a restricted caller's own queues and kinds."""
        if not self.principal.is_unrestricted_for(impact):
            raise Forbidden(
                f"your token is restricted to some queues or kinds, and this affects {impact}"
            )

    def require_queue(self, name: str) -> None:
        """Refuse a queue that the caller may not use."""
        require_name("queue", name)
        if not self.principal.may_use_queue(name):
            raise Forbidden(f"your token does not allow queue {name!r}")

    def queue(self, name: str, permission: Permission) -> MeteredQueue:
        """A queue, for which the caller needs this permission, whether it exists or not."""
        self.require(permission)
        self.require_queue(name)
        return self.runtime.queue(QueueKey(self.tenant, name), keep=not is_read_only(permission))

    async def existing_queue(self, name: str, permission: Permission) -> MeteredQueue:
        """Like `queue`, but it must exist: a typo must not look like an empty queue."""
        queue = self.queue(name, permission)
        await self.describe(name, permission)
        return queue

    async def describe(self, name: str, permission: Permission) -> QueueInfo:
        """The store's description of a queue, or `NotFound`."""
        key = self.queue(name, permission).sync.key
        found = await self.runtime.call(self.runtime.store.describe, key.tenant, key.name)
        if not found:
            raise NotFound(f"there is no queue {name!r}: its first job creates it")
        return found[0]

    async def job(self, queue: str, id: str, permission: Permission) -> tuple[MeteredQueue, Record]:
        """A job with its queue; `JobNotFound` also if the caller may not access its kind."""
        found = self.queue(queue, permission)
        [record] = await self.runtime.call(self.runtime.store.get, found.sync.key, [id])
        if record is None or not self.principal.can_see(record):
            raise JobNotFound(queue, id)
        return found, record

    def require_kind(self, kind: str) -> None:
        """Refuse a kind that the caller may not use."""
        if not self.principal.may_use_kind(kind):
            raise Forbidden(f"your token does not allow jobs of kind {kind!r}")

    def can_see_each(self, queue: QueueKey, ids: Sequence[str]) -> list[bool]:
        """For each id: whether its job does not exist, or the caller may access it. Blocks."""
        if self.principal.kinds is None:
            return [True] * len(ids)
        found = find_each_job(self.runtime.store, queue, ids)
        return [job is None or self.principal.can_see(job) for job in found]

    async def require_replaceable(self, queue: MeteredQueue, ids: Sequence[str]) -> None:
        """Refuse to replace failed jobs that the caller may not access."""
        if self.principal.kinds is not None and ids:
            await self.runtime.call(self.require_replaceable_blocking, queue.sync.key, ids)

    def require_replaceable_blocking(self, queue: QueueKey, ids: Sequence[str]) -> None:
        """Like `require_replaceable`, for code that may block."""
        if self.principal.kinds is None:
            return
        for job in find_each_job(self.runtime.store, queue, ids):
            if job is not None and job.state in REPLACEABLE and not self.principal.can_see(job):
                raise id_conflict(job.id)

    def limited_to_kinds(self, draft: Draft) -> Draft:
        """A draft that replaces only failed jobs of kinds that the caller may access."""
        kinds = self.principal.kinds
        if kinds is None:
            return draft
        replaces = kinds if draft.replaces is None else kinds & draft.replaces
        return msgspec.structs.replace(draft, replaces=replaces)

    def kinds(self, requested: Iterable[str] | None) -> frozenset[str] | None:
        """The requested kinds, all of which must be allowed; by default all allowed kinds."""
        if requested is None:
            return self.principal.kinds
        kinds = frozenset(requested)
        for kind in kinds:
            require_name("kind", kind)
            self.require_kind(kind)
        return kinds

    def require_batch(self, size: int) -> None:
        """Refuse a batch that is too large for one request."""
        limit = self.runtime.settings.max_batch
        if size > limit:
            raise TooLarge(
                f"{size:,} in one request; the limit is {limit:,}: send several requests"
            )

    def require_undelivered_keys(self, keys: Collection[object] | None) -> None:
        """Refuse `keys_if_undelivered` to a restricted caller: keys belong to the whole tenant."""
        if keys:
            self.require(Permission.SET_UNDELIVERED_KEYS)

    def tenant_queues(self, permission: Permission) -> Queues:
        """The tenant's queues and keys."""
        self.require(permission)
        return Queues(self.runtime.store, self.tenant)
