"""What `/readyz` looks at."""

from __future__ import annotations

import asyncio
import time

import msgspec

from ackline.limits import OWN_KEYS
from ackline.queues import DEFAULT_TENANT
from ackline.service.runtime import Runtime
from ackline.stores.base import KeyWrite, StoreInfo

PATIENCE = 2.0
"""Seconds that the store has for an answer."""

LATE = 30.0
"""Seconds that a loop may be behind its time before someone should look."""


NEEDED = ("draining", "store", "sweep")
"""Without one of these, requests should go elsewhere; the rest is good to know."""


class Check(msgspec.Struct, omit_defaults=True):
    """One thing that was looked at."""

    ok: bool
    says: str


class Readiness(msgspec.Struct):
    """Whether the service should get requests, and why not."""

    ready: bool
    checks: dict[str, Check]


async def examine(runtime: Runtime) -> Readiness:
    """Look at all that a request may need."""
    checks = {"draining": _draining(runtime), **await _store(runtime), "sweep": _sweep(runtime)}
    return Readiness(all(checks[name].ok for name in NEEDED if name in checks), checks)


def _draining(runtime: Runtime) -> Check:
    return Check(not runtime.draining, "about to stop" if runtime.draining else "no")


async def _store(runtime: Runtime) -> dict[str, Check]:
    if runtime.draining:
        return {}
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
        **{one.what: Check(not one.grave, f"{one.says}. {one.do}") for one in info.troubles},
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
        if last_run is not None and time.time() - last_run > LATE + loop.interval:
            return Check(False, f"the {loop.name} last ran {time.time() - last_run:.0f} s ago")
    return Check(True, "on time")
