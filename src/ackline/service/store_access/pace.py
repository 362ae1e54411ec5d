"""The request rate of a client that calls the store itself: it depends on the request's body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackline.lifecycle import Transition
from ackline.service.auth.authorization import is_settling
from ackline.service.auth.caller import Caller
from ackline.service.store_access.answers import ask
from ackline.service.store_access.arguments import Arguments
from ackline.stores.base import Claimed

PACED_BY_BODY = frozenset({"claim", "apply", "heartbeat"})
"""Verbs that may settle or hold jobs; others beyond the rate are refused before they are read."""


def ask_within_rate(caller: Caller, verb: str, arguments: Arguments) -> Any:
    """What the store answers, within the rate; settling and holding is never refused. It blocks."""
    limits, steps = caller.runtime.limits, arguments.get("transitions", ())
    if verb in PACED_BY_BODY and (verb == "heartbeat" or _settles(steps)):
        wait = limits.count_request(caller.tenant)
        if wait and verb == "claim":
            return _settle_alone(caller, arguments, wait)
    elif verb in PACED_BY_BODY:
        limits.admit_request(caller.tenant)
    return ask(caller, verb, arguments)


def _settles(steps: Sequence[Transition]) -> bool:
    """Whether there are steps, and holders of leases take all of them."""
    return bool(steps) and all(map(is_settling, steps))


def _settle_alone(caller: Caller, arguments: Arguments, wait: float) -> Claimed:
    """Settle what a claim settles, but claim nothing until `next_at`, when it is admitted again."""
    steps = {"queue": arguments["queue"], "transitions": arguments["transitions"]}
    verdicts = ask(caller, "apply", steps)
    now = caller.runtime.store.now()
    return Claimed(jobs=[], verdicts=verdicts, next_at=now + wait, now=now)
