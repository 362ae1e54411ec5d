"""Which acts are legal on a job of each state, and which of them a caller may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ackline.core.events import Act
from ackline.core.job import State
from ackline.core.lifecycle import is_legal_from
from ackline.service.auth.permissions import Permission
from ackline.service.auth.principal import Principal

JobAct = Literal["redrive", "edit", "move", "cancel", "delete"]

JOB_ACTS: Mapping[JobAct, tuple[Act, Permission]] = {
    "redrive": (Act.REDRIVE, Permission.REDRIVE),
    "edit": (Act.EDIT, Permission.EDIT),
    "move": (Act.MOVE, Permission.MOVE),
    "cancel": (Act.CANCEL, Permission.CANCEL),
    "delete": (Act.PURGE, Permission.DELETE),
}


def legal_states(act: JobAct) -> frozenset[State]:
    """The states of jobs on which an act is legal."""
    return frozenset(state for state in State if is_legal_from(JOB_ACTS[act][0], state))


def acts_by_state(principal: Principal) -> dict[State, list[JobAct]]:
    """The acts that this caller may do on a job of each state."""
    allowed = [act for act, (_, permission) in JOB_ACTS.items() if principal.may(permission)]
    return {state: [act for act in allowed if state in legal_states(act)] for state in State}
