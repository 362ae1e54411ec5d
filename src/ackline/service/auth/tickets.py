"""Tickets authenticate streams in browsers, which cannot send headers. They work once."""

from __future__ import annotations

import hashlib
import secrets
import time

import msgspec

from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.service.auth.credentials import SERVICE_TENANT
from ackline.service.auth.principal import Principal
from ackline.service.http.problems import Unauthorized
from ackline.stores.contract import KeyWrite, Store, find_key

TTL = 30
"""Seconds for which a ticket can be used."""

TICKETS_PREFIX = reserved_key(KeyFamily.TICKETS)
EXPIRED_BATCH = 100
"""Maximum number of expired tickets to delete when a new one is issued."""


class StoredTicket(msgspec.Struct, frozen=True):
    """What is stored of a ticket: who asked for it."""

    principal: Principal


def issue(store: Store, principal: Principal) -> str:
    """Issue a ticket; its hash is stored, so that any process can redeem it."""
    expires = int(time.time()) + TTL
    ticket = f"{expires}-{secrets.token_urlsafe(32)}"
    _delete_expired(store)
    value = msgspec.json.encode(StoredTicket(principal))
    store.write_keys(SERVICE_TENANT, [KeyWrite(key=_key(ticket), value=value, version=0)])
    return ticket


def redeem(store: Store, ticket: str) -> Principal:
    """The principal that asked for a ticket, which is deleted in the same step."""
    key = _key(ticket)
    found = find_key(store, SERVICE_TENANT, key)
    if found is None or int(key[2]) <= time.time():
        raise _refused()
    used = KeyWrite(key=key, value=None, version=found.version)
    if not store.write_keys(SERVICE_TENANT, [used]):
        raise _refused()
    return msgspec.json.decode(found.value, type=StoredTicket).principal


def _refused() -> Unauthorized:
    return Unauthorized("the ticket was used, is expired or unknown: get another one")


def _key(ticket: str) -> tuple[str, ...]:
    expires, _, _ = ticket.partition("-")
    if not (expires.isascii() and expires.isdecimal() and len(expires) <= 10):
        raise _refused()
    # Ordered by expiry, so that expired tickets come first.
    return (*TICKETS_PREFIX, expires.zfill(10), hashlib.sha256(ticket.encode()).hexdigest())


def _delete_expired(store: Store) -> None:
    now = time.time()
    kept = store.read_keys(SERVICE_TENANT, TICKETS_PREFIX, EXPIRED_BATCH)
    expired = [KeyWrite(key=entry.key, value=None) for entry in kept if int(entry.key[2]) <= now]
    if expired:
        store.write_keys(SERVICE_TENANT, expired)
