"""Which scope a verb of the store needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ackline.events import Act
from ackline.job import QueueKey
from ackline.lifecycle import FENCED
from ackline.limits import require_name, short_note
from ackline.service.caller import Caller, Scope
from ackline.service.problems import Forbidden

Arguments = dict[str, Any]

EVERYONE = frozenset(Scope)

SCOPES: Mapping[str, frozenset[Scope]] = {
    "info": EVERYONE,
    "describe": EVERYONE,
    "enqueue": frozenset({Scope.PRODUCE}),
    "claim": frozenset({Scope.CONSUME}),
    "heartbeat": frozenset({Scope.CONSUME}),
    "promote": frozenset({Scope.CONSUME, Scope.ADMIN}),
    "prune": frozenset({Scope.CONSUME, Scope.ADMIN}),
    "leases": frozenset({Scope.CONSUME, Scope.READ}),
    "workers": frozenset({Scope.CONSUME, Scope.READ}),
    "get": frozenset({Scope.CONSUME, Scope.READ}),
    "listen": frozenset({Scope.CONSUME, Scope.READ}),
    "read_keys": frozenset({Scope.CONSUME, Scope.READ, Scope.ADMIN}),
    "events": frozenset({Scope.READ}),
    "purge": frozenset({Scope.ADMIN}),
    "drop": frozenset({Scope.ADMIN}),
    # These four depend on their arguments as well, see `permits`.
    "page": frozenset({Scope.CONSUME, Scope.READ}),
    "apply": EVERYONE,
    "configure": EVERYONE,
    "write_keys": EVERYONE,
}
"""One of these is needed for a verb."""

STEPS: Mapping[Act, Scope] = {
    **dict.fromkeys(FENCED, Scope.CONSUME),
    Act.CANCEL: Scope.PRODUCE,
    Act.REQUEST_CANCEL: Scope.PRODUCE,
    Act.REDRIVE: Scope.ADMIN,
    Act.EDIT: Scope.ADMIN,
    Act.MOVE: Scope.ADMIN,
}
"""The scope that a transition needs; acts that are not here are verbs of their own."""

HELD = FENCED | {Act.CANCEL}
"""Acts that a consumer may take on the job that it holds, by the lease's token.

A redrive's token is no lease: it names the failure, and everyone who reads the job knows it.
"""


def require_one_of(caller: Caller, scopes: Collection[Scope]) -> None:
    """Refuse a caller that has none of these scopes."""
    if not caller.principal.scopes & frozenset(scopes):
        words = " or ".join(sorted(scopes))
        raise Forbidden(f"this needs the scope {words}, which your token does not have")


def require_queues(caller: Caller, queues: QueueKey | str | list[QueueKey] | None) -> None:
    """Refuse queues, given by key or by name, that the caller may not use."""
    for queue in queues if isinstance(queues, list) else [queues] if queues is not None else []:
        name = queue.name if isinstance(queue, QueueKey) else queue
        require_name("queue", name)
        if not caller.may_see(name):
            raise Forbidden(f"your token is not for queue {name!r}")


def signed(caller: Caller, by: str) -> str:
    """Who did it: first the authenticated name, then the name that the client gave."""
    return short_note(": ".join(name for name in (caller.by, by) if name))
