"""What the client raises, as errors of ours that say what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from redis import exceptions

from ackline.errors import (
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)

_MEANINGS: tuple[tuple[str, type[StoreError], str], ...] = (
    (
        "OOM ",
        StoreFull,
        "its memory is used up (maxmemory): work jobs off, purge, or give it more. "
        "Settling, cancelling and purging still work",
    ),
    (
        "READONLY",
        StoreReadOnly,
        "it is a replica, which only its primary writes to: name the primary, "
        "or let redis+sentinel:// find it",
    ),
    (
        "MISCONF",
        StoreReadOnly,
        "it takes no writes because it cannot save to its disk: see its log",
    ),
    (
        "NOREPLICAS",
        StoreUnavailable,
        "too few replicas are connected to it (min-replicas-to-write)",
    ),
    ("LOADING", StoreUnavailable, "it is still reading its data from disk"),
    ("MASTERDOWN", StoreUnavailable, "it is a replica that has lost its primary"),
    ("CLUSTERDOWN", StoreUnavailable, "the cluster does not serve all its slots: see CLUSTER INFO"),
    ("TRYAGAIN", StoreUnavailable, "the slot is on its way to another node"),
    ("BUSY ", StoreUnavailable, "another client's script keeps it busy"),
    (
        "WRONGTYPE",
        StoreMismatch,
        "another program has keys under this prefix: choose another one with ?prefix=…",
    ),
    ("WRONGPASS", StoreError, "it does not accept this user and password: see the URL"),
    ("NOAUTH", StoreError, "it wants a password: redis://:PASSWORD@HOST"),
    ("NOPERM", StoreError, "this user may not do that: it needs +@all on the keys of the prefix"),
    ("invalid username-password", StoreError, "it does not accept this user and password"),
    ("without any password configured", StoreError, "it has no password, but the URL has one"),
    ("Cluster mode is not enabled", StoreError, "it is no cluster: its URL is redis://…"),
    ("'SENTINEL'", StoreError, "it is no sentinel: the URL of a server itself is redis://…"),
    ("No master found", StoreUnavailable, "the sentinels know no primary of this name just now"),
    ("DB index is out of range", StoreError, "it has no database of this number: see the URL"),
    ("SELECT is not allowed", StoreError, "a cluster has only database 0: leave the number out"),
    ("unknown command", StoreError, "it is too old, or a proxy that does not know the command"),
)


@contextlib.contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise our errors instead of the client's."""
    try:
        yield
    except (exceptions.RedisError, exceptions.RedisClusterException) as error:
        raise translate(error, where) from error
    except OSError as error:
        raise StoreUnavailable(f"{where} cannot be reached: {error}") from error


def translate(error: Exception, where: str) -> StoreError:
    """The error of ours that says the same."""
    text = str(error)
    for sign, kind, meaning in _MEANINGS:
        if sign in text:
            return kind(f"{where}: {meaning} ({text})")
    if isinstance(error, exceptions.TimeoutError):
        return StoreUnavailable(
            f"{where} did not answer in time; what was sent may be done: {text}"
        )
    if isinstance(error, exceptions.ConnectionError):
        return StoreUnavailable(f"{where} cannot be reached: {text}")
    if isinstance(error, (exceptions.ClusterError, exceptions.RedisClusterException)):
        return StoreUnavailable(f"{where}: the cluster has no node for this: {text}")
    return StoreError(f"{where}: {text}")
