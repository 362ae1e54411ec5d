"""The checks of `/readyz`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.queues import DEFAULT_TENANT
from ackline.stores.contract import KeyWrite, StoreInfo

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

STORE_TIMEOUT = 2.0
"""Seconds that the store has to answer."""

CACHE_SECONDS = 1.0
"""Seconds for which a check of the store is cached: each one writes to it."""

LATE_AFTER = 30.0
"""Seconds that a loop may be late before the service is not ready."""


REQUIRED_CHECKS = ("draining", "store", "sweep")
"""Checks that must pass for the service to be ready; the others are for information."""


class Check(msgspec.Struct, omit_defaults=True):
    """The result of one check."""

    ok: bool
    message: str


class Readiness(msgspec.Struct):
    """Whether the service should get requests, with the checks behind it."""

    ready: bool
    checks: dict[str, Check]


class CachedStoreChecks:
    """The checks of the store, cached for a moment because anyone may ask."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._checks: dict[str, Check] = {}
        self._valid_until = float("-inf")

    async def of(self, runtime: Runtime) -> dict[str, Check]:
        """Check the store, unless it was checked just now."""
        async with self._lock:
            if time.monotonic() > self._valid_until:
                self._checks = await _store(runtime)
                self._valid_until = time.monotonic() + CACHE_SECONDS
            return self._checks


PUBLIC_CHECKS = frozenset({"draining", "store", "schema", "durability", "sweep"})
"""Checks shown to every authenticated caller; others report health issues of the store."""


async def check_readiness(runtime: Runtime) -> Readiness:
    """Run all checks."""
    store = {} if runtime.draining else await runtime.store_checks.of(runtime)
    checks = {"draining": _draining(runtime), **store, "sweep": _sweep(runtime)}
    return Readiness(all(checks[name].ok for name in REQUIRED_CHECKS if name in checks), checks)


def _draining(runtime: Runtime) -> Check:
    return Check(not runtime.draining, "shutting down" if runtime.draining else "not draining")


async def _store(runtime: Runtime) -> dict[str, Check]:
    try:
        async with asyncio.timeout(STORE_TIMEOUT):
            info = await runtime.call(_write, runtime)
    except TimeoutError:
        return {"store": Check(False, f"no answer within {STORE_TIMEOUT:g} s")}
    except Exception as error:
        return {"store": Check(False, f"{type(error).__name__}: {error}")}
    return {
        "store": Check(True, f"{info.name} {info.version}, written"),
        "schema": Check(True, str(info.schema)),
        "durability": Check(True, info.durability),
        **{
            issue.code: Check(not issue.critical, f"{issue.message}. {issue.advice}")
            for issue in info.issues
        },
    }


def _write(runtime: Runtime) -> StoreInfo:
    info = runtime.store.info()
    key = reserved_key(KeyFamily.READYZ, runtime.worker)
    value = msgspec.json.encode(info.now)
    tenant = DEFAULT_TENANT
    runtime.store.write_keys(tenant, [KeyWrite(key=key, value=value)])
    runtime.store.write_keys(tenant, [KeyWrite(key=key, value=None)])
    return info


def _sweep(runtime: Runtime) -> Check:
    if not runtime.settings.maintenance:
        return Check(True, "maintenance runs elsewhere")
    for loop in runtime.background.loops:
        last_run = loop.stats().last_run
        late = time.time() - (last_run or runtime.opened_at)
        if late > LATE_AFTER + loop.interval:
            ran = "last ran" if last_run is not None else "should have started"
            return Check(False, f"the {loop.name} {ran} {late:.0f} s ago")
    return Check(True, "on schedule")
