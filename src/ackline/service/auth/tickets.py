"""Tickets: for streams in a browser, which can send no header. Good once, for half a minute."""

from __future__ import annotations

import hashlib
import secrets
import time

import msgspec

from ackline.limits import OWN_KEYS
from ackline.service.caller import Principal
from ackline.service.credentials import SERVICE_TENANT
from ackline.service.problems import Unauthorized
from ackline.stores.base import KeyWrite, Store, find_key

LIFE = 30
"""Seconds from the making of a ticket to its use."""

ROOM = (OWN_KEYS, "tickets")
SWEPT = 100
"""Unused tickets that are cleared away when a new one is made."""


class Stub(msgspec.Struct, frozen=True):
    """What is kept of a ticket: who asked for it."""

    principal: Principal


def issue(store: Store, principal: Principal) -> str:
    """Make a ticket; the store keeps its hash, so that any process knows it."""
    expires = int(time.time()) + LIFE
    ticket = f"{expires}-{secrets.token_urlsafe(32)}"
    _sweep(store)
    value = msgspec.json.encode(Stub(principal))
    store.write_keys(SERVICE_TENANT, [KeyWrite(key=_key(ticket), value=value, version=0)])
    return ticket


def redeem(store: Store, ticket: str) -> Principal:
    """Who asked for this ticket. It is gone in the same step, whoever else shows it."""
    key = _key(ticket)
    found = find_key(store, SERVICE_TENANT, key)
    if found is None or int(key[2]) <= time.time():
        raise _refused()
    used = KeyWrite(key=key, value=None, version=found.version)
    if not store.write_keys(SERVICE_TENANT, [used]):
        raise _refused()
    return msgspec.json.decode(found.value, type=Stub).principal


def _refused() -> Unauthorized:
    return Unauthorized("the ticket is used, expired or unknown: get another one")


def _key(ticket: str) -> tuple[str, ...]:
    expires, _, _ = ticket.partition("-")
    if not (expires.isascii() and expires.isdecimal() and len(expires) <= 10):
        raise _refused()
    # By time, so that the expired ones are the first.
    return (*ROOM, expires.zfill(10), hashlib.sha256(ticket.encode()).hexdigest())


def _sweep(store: Store) -> None:
    now = time.time()
    kept = store.read_keys(SERVICE_TENANT, ROOM, SWEPT)
    old = [KeyWrite(key=one.key, value=None) for one in kept if int(one.key[2]) <= now]
    if old:
        store.write_keys(SERVICE_TENANT, old)
