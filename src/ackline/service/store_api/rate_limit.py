"""The request rate of a client that calls the store itself: it depends on the request's body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackline.core.lifecycle import Transition
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import is_settling
from ackline.service.store_api.arguments import Arguments
from ackline.service.store_api.execute import execute
from ackline.stores.contract import ClaimResult

RATE_DEPENDS_ON_BODY = frozenset({"claim", "apply", "heartbeat"})
"""Verbs that may settle or hold jobs; others beyond the rate are refused before they are read."""


def execute_within_rate(caller: Caller, verb: str, arguments: Arguments) -> Any:
    """What the store answers, within the rate; settling and holding is never refused. It blocks."""
    limits, steps = caller.runtime.limits, arguments.get("transitions", ())
    if verb in RATE_DEPENDS_ON_BODY and (verb == "heartbeat" or _settles(steps)):
        wait = limits.count_request(caller.tenant)
        if wait and verb == "claim":
            return _settle_without_claim(caller, arguments, wait)
    elif verb in RATE_DEPENDS_ON_BODY:
        limits.admit_request(caller.tenant)
    return execute(caller, verb, arguments)


def _settles(steps: Sequence[Transition]) -> bool:
    """Whether there are steps, and holders of leases take all of them."""
    return bool(steps) and all(map(is_settling, steps))


def _settle_without_claim(caller: Caller, arguments: Arguments, wait: float) -> ClaimResult:
    """Settle what a claim settles, but claim nothing until `next_at`, when it is admitted again."""
    steps = {"queue": arguments["queue"], "transitions": arguments["transitions"]}
    verdicts = execute(caller, "apply", steps)
    now = caller.runtime.store.now()
    return ClaimResult(jobs=[], verdicts=verdicts, next_at=now + wait, now=now)
