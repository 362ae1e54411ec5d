"""What can be done to a job, by its state: as the lifecycle has it, for callers that may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ackline.events import Act
from ackline.job import State
from ackline.lifecycle import legal
from ackline.service.auth.authorization import Access
from ackline.service.auth.principal import Principal

JobAct = Literal["redrive", "edit", "move", "cancel", "delete"]

ACTS: Mapping[JobAct, tuple[Act, Access]] = {
    "redrive": (Act.REDRIVE, Access.REDRIVE),
    "edit": (Act.EDIT, Access.EDIT),
    "move": (Act.MOVE, Access.MOVE),
    "cancel": (Act.CANCEL, Access.CANCEL),
    "delete": (Act.PURGE, Access.DELETE),
}


def states_of(act: JobAct) -> frozenset[State]:
    """The states of the jobs that an act can be done to."""
    return frozenset(state for state in State if legal(ACTS[act][0], state))


def acts_by_state(principal: Principal) -> dict[State, list[JobAct]]:
    """What this caller may do to a job of each state."""
    allowed = [act for act, (_, access) in ACTS.items() if principal.may(access)]
    return {state: [act for act in allowed if state in states_of(act)] for state in State}
