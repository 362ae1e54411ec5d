"""Who calls, and what it may: the only way from a request to a queue."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec
from litestar.types import Receive

from ackline.job import Draft, QueueKey, State
from ackline.limits import require_name
from ackline.queues import DEFAULT_TENANT, Queues
from ackline.service.problems import Conflict, Forbidden, TooLarge

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime
    from ackline.service.served_queue import ServedQueue

T = TypeVar("T")
P = ParamSpec("P")


class Scope(enum.StrEnum):
    """What a caller may do."""

    PRODUCE = "produce"
    CONSUME = "consume"
    READ = "read"
    ADMIN = "admin"


class Principal(msgspec.Struct, frozen=True):
    """Who was recognized: its tenant, and what it is limited to (None: to nothing)."""

    tenant: str
    scopes: frozenset[Scope]
    queues: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    name: str = ""
    """Written into the journal beside what it does."""
    operator: bool = False
    """Whether it sees figures of all tenants."""
    until: float | None = None
    """When it has to show again who it is; its streams end then."""


REPLACED = frozenset({State.FAILED, State.CANCELLED})
"""Jobs that an enqueue of the same id replaces."""


def taken(id: str) -> Conflict:
    """An id belongs to a failed or cancelled job of a kind that the caller may not touch."""
    return Conflict(f"the id {id!r} is taken by a job that your token is not for")


ANYONE_HERE = Principal(DEFAULT_TENANT, frozenset(Scope), name="http", operator=True)
"""Whoever reaches the loopback address of this machine."""


class Caller:
    """One request's access to the store: each act names the scope that it needs."""

    def __init__(self, runtime: Runtime, principal: Principal, receive: Receive) -> None:
        self.runtime = runtime
        self.principal = principal
        self.receive = receive
        """Tells when the client leaves."""
        self.tenant = principal.tenant

    async def slowly(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something that blocks for longer than a moment: a search, an act on many jobs."""
        return await self.runtime.slow_work.call(self.tenant, function, *args, **kwargs)

    @property
    def by(self) -> str:
        """How the journal calls it."""
        return self.principal.name

    def require(self, scope: Scope) -> None:
        """Refuse who may not do this at all."""
        if scope not in self.principal.scopes:
            raise Forbidden(f"this needs the scope {scope}, which your token does not have")

    def queue(self, name: str, scope: Scope) -> ServedQueue:
        """A queue that the caller may do this with, there or not."""
        self.require(scope)
        require_name("queue", name)
        if not self.may_see(name):
            raise Forbidden(f"your token is not for queue {name!r}")
        return self.runtime.queue(QueueKey(self.tenant, name), keep=scope is not Scope.READ)

    def may_see(self, queue: str) -> bool:
        """Whether a queue is one of those it is limited to."""
        return self.principal.queues is None or queue in self.principal.queues

    def may_touch(self, kind: str) -> bool:
        """Whether a kind is one of those it is limited to; jobs of others are not there for it."""
        return self.principal.kinds is None or kind in self.principal.kinds

    def require_kind(self, kind: str) -> None:
        """Refuse a kind that the caller is not limited to."""
        if not self.may_touch(kind):
            raise Forbidden(f"your token is not for jobs of kind {kind!r}")

    def sees(self, queue: QueueKey, ids: Sequence[str]) -> list[bool]:
        """Of each job, whether the caller may touch it; one that is not there it may. It blocks."""
        if self.principal.kinds is None:
            return [True] * len(ids)
        found = self.runtime.store.get(queue, ids)
        return [job is None or self.may_touch(job.kind) for job in found]

    async def require_own(self, queue: ServedQueue, ids: Sequence[str]) -> None:
        """Refuse to enqueue in the place of failed jobs that the caller may not touch."""
        if self.principal.kinds is not None and ids:
            await self.runtime.call(self.require_own_ids, queue.sync.key, ids)

    def require_own_ids(self, queue: QueueKey, ids: Sequence[str]) -> None:
        """The same for who may block."""
        if self.principal.kinds is None:
            return
        for job in self.runtime.store.get(queue, ids):
            if job is not None and job.state in REPLACED and not self.may_touch(job.kind):
                raise taken(job.id)

    def owned(self, draft: Draft) -> Draft:
        """A draft that replaces no failed job that the caller may not touch."""
        kinds = self.principal.kinds
        if kinds is None:
            return draft
        wanted = kinds if draft.replaces is None else kinds & draft.replaces
        return msgspec.structs.replace(draft, replaces=wanted)

    def kinds(self, wanted: Iterable[str] | None) -> frozenset[str] | None:
        """The kinds to hand out: those asked for, within those that it is limited to."""
        asked = frozenset(wanted) if wanted is not None else None
        for kind in asked or ():
            require_name("kind", kind)
            self.require_kind(kind)
        return asked if asked is not None else self.principal.kinds

    def require_batch(self, size: int) -> None:
        """Refuse more than one request may have."""
        most = self.runtime.settings.max_batch
        if size > most:
            raise TooLarge(f"{size:,} at once; the limit is {most:,}: send several requests")

    def require_all_kinds(self) -> None:
        """Refuse an act on a queue as a whole to who may touch some kinds only."""
        if self.principal.kinds is not None:
            raise Forbidden("this concerns all kinds of jobs, and your token is for some only")

    def require_all_queues(self) -> None:
        """Refuse what belongs to no queue to who may touch some queues or kinds only."""
        if self.principal.queues is not None or self.principal.kinds is not None:
            raise Forbidden("this belongs to the whole tenant, and your token is for parts of it")

    def room(self, scope: Scope) -> Queues:
        """The tenant's keys and its list of queues."""
        self.require(scope)
        return Queues(self.runtime.store, self.tenant)
