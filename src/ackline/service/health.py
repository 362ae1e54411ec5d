"""What `/readyz` looks at."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from ackline.limits import OWN_KEYS
from ackline.queues import DEFAULT_TENANT
from ackline.stores.base import KeyWrite, StoreInfo

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

PATIENCE = 2.0
"""Seconds that the store has for an answer."""

REMEMBERED = 1.0
"""Seconds for which a check of the store is remembered: each one writes to it."""

LATE = 30.0
"""Seconds that a loop may be behind its time before someone should look."""


NEEDED = ("draining", "store", "sweep")
"""If one of these checks fails, requests should go elsewhere; the others are for information."""


class Check(msgspec.Struct, omit_defaults=True):
    """One thing that was looked at."""

    ok: bool
    says: str


class Readiness(msgspec.Struct):
    """Whether the service should get requests, and why not."""

    ready: bool
    checks: dict[str, Check]


class StoreChecks:
    """The checks of the store, remembered for a moment because anyone may ask."""

    def __init__(self) -> None:
        self._looking = asyncio.Lock()
        self._found: dict[str, Check] = {}
        self._until = float("-inf")

    async def of(self, runtime: Runtime) -> dict[str, Check]:
        """Check, unless somebody just did."""
        async with self._looking:
            if time.monotonic() > self._until:
                self._found = await _store(runtime)
                self._until = time.monotonic() + REMEMBERED
            return self._found


SHOWN = frozenset({"draining", "store", "schema", "durability", "sweep"})
"""Checks for everyone who is known; others tell of troubles of the store."""


async def examine(runtime: Runtime) -> Readiness:
    """Check everything that a request may need."""
    store = {} if runtime.draining else await runtime.store_checks.of(runtime)
    checks = {"draining": _draining(runtime), **store, "sweep": _sweep(runtime)}
    return Readiness(all(checks[name].ok for name in NEEDED if name in checks), checks)


def _draining(runtime: Runtime) -> Check:
    return Check(not runtime.draining, "about to stop" if runtime.draining else "no")


async def _store(runtime: Runtime) -> dict[str, Check]:
    try:
        async with asyncio.timeout(PATIENCE):
            info = await runtime.call(_write, runtime)
    except TimeoutError:
        return {"store": Check(False, f"no answer within {PATIENCE:g} s")}
    except Exception as error:
        return {"store": Check(False, f"{type(error).__name__}: {error}")}
    return {
        "store": Check(True, f"{info.name} {info.version}, written"),
        "schema": Check(True, str(info.schema)),
        "durability": Check(True, info.durability),
        **{
            trouble.what: Check(not trouble.grave, f"{trouble.says}. {trouble.do}")
            for trouble in info.troubles
        },
    }


def _write(runtime: Runtime) -> StoreInfo:
    info = runtime.store.info()
    key = (OWN_KEYS, "readyz", runtime.worker)
    value = msgspec.json.encode(info.now)
    tenant = DEFAULT_TENANT
    runtime.store.write_keys(tenant, [KeyWrite(key=key, value=value)])
    runtime.store.write_keys(tenant, [KeyWrite(key=key, value=None)])
    return info


def _sweep(runtime: Runtime) -> Check:
    if not runtime.settings.maintenance:
        return Check(True, "left to others")
    for loop in runtime.caretaker.loops:
        last_run = loop.stats().last_run
        late = time.time() - (last_run or runtime.opened_at)
        if late > LATE + loop.interval:
            ran = "last ran" if last_run is not None else "should have begun"
            return Check(False, f"the {loop.name} {ran} {late:.0f} s ago")
    return Check(True, "on time")
