"""One request's access to the store: the only way from a request to a queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import msgspec
from litestar.types import HTTPScope, Receive

from ackline.errors import JobNotFound
from ackline.job import Draft, QueueKey, Record, State
from ackline.lifecycle import KEEPS_ID
from ackline.limits import require_name
from ackline.queues import Queues
from ackline.service.auth.authorization import RULES, Access, Reach, Scope, is_read
from ackline.service.auth.principal import Principal
from ackline.service.body_memory import body_of
from ackline.service.problems import Conflict, Forbidden, NotFound, TooLarge
from ackline.stores.base import QueueInfo, find_each

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime
    from ackline.service.served_queue import ServedQueue
    from ackline.service.slow_work import Steps

T = TypeVar("T")
P = ParamSpec("P")


NAMES = "ackline.names"
"""Where a request's scope has the queue names that it waits for, and whose they are."""

REPLACED = frozenset(State) - KEEPS_ID
"""Jobs that an enqueue of the same id replaces."""


def taken(id: str) -> Conflict:
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

    def will_wait_for(self, names: int) -> None:
        """Count the queues that this request waits for until it is over; refuses too many.

        What the request sent is not kept meanwhile.
        """
        self.runtime.limits.take_names(self.tenant, names)
        body_of(self._scope).forget()
        cast("dict[str, Any]", self._scope)[NAMES] = (self.tenant, names)

    async def slowly(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something that blocks for longer than a moment: a search, an act on many jobs."""
        return await self.runtime.slow_work.call(self.tenant, function, *args, **kwargs)

    async def in_steps(self, steps: Steps[T]) -> T:
        """Take steps that block, with room for other tenants' work between any two."""
        return await self.runtime.slow_work.take(self.tenant, steps)

    @property
    def by(self) -> str:
        """Its name in the journal."""
        return self.principal.name

    def require(self, *accesses: Access) -> None:
        """Refuse a caller that may do none of these."""
        if any(map(self.principal.may, accesses)):
            return
        rules = [RULES[access] for access in accesses]
        scopes = frozenset[Scope]().union(*(rule.scopes for rule in rules))
        if not self.principal.scopes & scopes:
            words = " or ".join(sorted(scopes))
            raise Forbidden(f"your token lacks the scope {words}, which this needs")
        for rule in rules:
            self.require_reach(rule.reach)

    def require_reach(self, reach: Reach) -> None:
        """Refuse an act on more than a limited caller's own queues and kinds."""
        if not self.principal.reaches(reach):
            raise Forbidden(
                "your token is limited to some kinds or queues of its tenant, "
                f"and this affects {reach}"
            )

    def require_queue(self, name: str) -> None:
        """Refuse a queue that the caller may not use."""
        require_name("queue", name)
        if not self.principal.may_use_queue(name):
            raise Forbidden(f"your token is not for queue {name!r}")

    def queue(self, name: str, access: Access) -> ServedQueue:
        """A queue that the caller may do this with, whether it exists or not."""
        self.require(access)
        self.require_queue(name)
        return self.runtime.queue(QueueKey(self.tenant, name), keep=not is_read(access))

    async def known_queue(self, name: str, access: Access) -> ServedQueue:
        """Like `queue`, but it must exist: a typing error must not look like an empty queue."""
        queue = self.queue(name, access)
        await self.describe(name, access)
        return queue

    async def describe(self, name: str, access: Access) -> QueueInfo:
        """The store's description of a queue, or `NotFound`."""
        key = self.queue(name, access).sync.key
        found = await self.runtime.call(self.runtime.store.describe, key.tenant, key.name)
        if not found:
            raise NotFound(f"there is no queue {name!r}; it comes into being with its first job")
        return found[0]

    async def job(self, queue: str, id: str, access: Access) -> tuple[ServedQueue, Record]:
        """A job with its queue; `JobNotFound` also if it is of a kind that is not the caller's."""
        found = self.queue(queue, access)
        [record] = await self.runtime.call(self.runtime.store.get, found.sync.key, [id])
        if record is None or not self.principal.sees(record):
            raise JobNotFound(queue, id)
        return found, record

    def require_kind(self, kind: str) -> None:
        """Refuse a kind that the caller may not use."""
        if not self.principal.may_use_kind(kind):
            raise Forbidden(f"your token is not for jobs of kind {kind!r}")

    def sees(self, queue: QueueKey, ids: Sequence[str]) -> list[bool]:
        """For each id: whether its job does not exist, or the caller may touch it. This blocks."""
        if self.principal.kinds is None:
            return [True] * len(ids)
        found = find_each(self.runtime.store, queue, ids)
        return [job is None or self.principal.sees(job) for job in found]

    async def require_own(self, queue: ServedQueue, ids: Sequence[str]) -> None:
        """Refuse to replace failed jobs that the caller may not touch."""
        if self.principal.kinds is not None and ids:
            await self.runtime.call(self.require_own_ids, queue.sync.key, ids)

    def require_own_ids(self, queue: QueueKey, ids: Sequence[str]) -> None:
        """Like `require_own`, for code that may block."""
        if self.principal.kinds is None:
            return
        for job in find_each(self.runtime.store, queue, ids):
            if job is not None and job.state in REPLACED and not self.principal.sees(job):
                raise taken(job.id)

    def owned(self, draft: Draft) -> Draft:
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

    def require_keys(self, keys: Collection[object] | None) -> None:
        """Refuse `keys_if_undelivered` to a limited caller: keys belong to the whole tenant."""
        if keys:
            self.require(Access.NAME_KEYS)

    def room(self, access: Access) -> Queues:
        """The tenant's keys and its list of queues."""
        self.require(access)
        return Queues(self.runtime.store, self.tenant)
