"""The client's errors as Ackline's, which say what to do."""

from __future__ import annotations

from types import TracebackType

import msgspec
from redis import exceptions
from redis.sentinel import MasterNotFoundError

from ackline.core.errors import (
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)


class _ErrorMeaning(msgspec.Struct, frozen=True):
    """What an error of the client means for a store, and what to do."""

    kind: type[StoreError]
    advice: str
    classes: tuple[type[Exception], ...] = ()
    signs: tuple[str, ...] = ()
    """Words of the message: for errors within a script, older servers give no other sign."""

    def fits(self, error: Exception) -> bool:
        return isinstance(error, self.classes) or any(sign in str(error) for sign in self.signs)


_MEANINGS = (
    _ErrorMeaning(
        StoreFull,
        "its memory is used up (maxmemory): work jobs off, purge, or give it more. "
        "Settling, cancelling and purging still work",
        (exceptions.OutOfMemoryError,),
        ("OOM ",),
    ),
    _ErrorMeaning(
        StoreReadOnly,
        "it is a replica, which only its primary writes to: name the primary, "
        "or let redis+sentinel:// find it",
        (exceptions.ReadOnlyError,),
        ("READONLY",),
    ),
    _ErrorMeaning(
        StoreReadOnly,
        "it takes no writes because it cannot save to its disk: see its log",
        signs=("MISCONF",),
    ),
    _ErrorMeaning(
        StoreUnavailable,
        "too few replicas are connected to it (min-replicas-to-write)",
        signs=("NOREPLICAS",),
    ),
    _ErrorMeaning(
        StoreUnavailable,
        "it is still reading its data from disk",
        (exceptions.BusyLoadingError,),
        ("LOADING",),
    ),
    _ErrorMeaning(
        StoreUnavailable,
        "it is a replica that has lost its primary",
        (exceptions.MasterDownError,),
        ("MASTERDOWN",),
    ),
    _ErrorMeaning(
        StoreUnavailable,
        "the cluster does not serve all its slots: see CLUSTER INFO",
        (exceptions.ClusterDownError,),
        ("CLUSTERDOWN",),
    ),
    _ErrorMeaning(
        StoreUnavailable,
        "the slot is on its way to another node",
        (exceptions.TryAgainError,),
        ("TRYAGAIN",),
    ),
    _ErrorMeaning(StoreUnavailable, "another client's script keeps it busy", signs=("BUSY ",)),
    _ErrorMeaning(
        StoreMismatch,
        "another program has keys under this prefix: choose another one with ?prefix=…",
        signs=("WRONGTYPE",),
    ),
    _ErrorMeaning(
        StoreError,
        "it has no password, but the URL has one",
        signs=("without any password configured",),
    ),
    _ErrorMeaning(
        StoreError,
        "it wants a password: redis://:PASSWORD@HOST",
        signs=("NOAUTH", "Authentication required"),
    ),
    _ErrorMeaning(
        StoreError,
        "it does not accept this user and password: see the URL, redis://USER:PASSWORD@HOST",
        (exceptions.AuthenticationError, exceptions.AuthenticationWrongNumberOfArgsError),
        ("WRONGPASS", "invalid username-password"),
    ),
    _ErrorMeaning(
        StoreError,
        "this user may not do that: it needs +@all, the keys ~{prefix}:* and the channels "
        "&{prefix}:*",
        (exceptions.NoPermissionError,),
        ("NOPERM", "can't publish to the channel", "permissions to access", "permissions to run"),
    ),
    _ErrorMeaning(
        StoreError,
        "it is not a cluster: its URL is redis://…",
        signs=("Cluster mode is not enabled",),
    ),
    _ErrorMeaning(
        StoreError,
        "it is not a sentinel: the URL of a server itself is redis://…",
        signs=("'SENTINEL'", "`SENTINEL`"),
    ),
    _ErrorMeaning(
        StoreUnavailable,
        "no sentinel answers, or none knows a primary of this name just now",
        (MasterNotFoundError,),
    ),
    _ErrorMeaning(
        StoreError,
        "it has no database of this number: see the URL",
        signs=("DB index is out of range",),
    ),
    _ErrorMeaning(
        StoreError,
        "a cluster has only database 0: leave the number out",
        signs=("SELECT is not allowed",),
    ),
    _ErrorMeaning(
        StoreError,
        "it is too old, or a proxy that does not know the command",
        signs=("unknown command",),
    ),
)


class TranslateErrors:
    """A context in which Ackline's errors are raised instead of the client's.

    Every command is sent in it. It has no state that changes, so all threads share one.
    """

    def __init__(self, where: str, prefix: str) -> None:
        self._where = where
        self._prefix = prefix

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if error is None:
            return
        if isinstance(error, (exceptions.RedisError, exceptions.RedisClusterException)):
            raise translate_error(error, self._where, self._prefix) from error
        if isinstance(error, OSError):
            raise StoreUnavailable(f"{self._where} cannot be reached: {error}") from error


def translate_error(error: Exception, where: str, prefix: str = "ackline") -> StoreError:
    """Ackline's error for an error of the client."""
    for meaning in _MEANINGS:
        if meaning.fits(error):
            advice = meaning.advice.format(prefix=prefix)
            # The client's own message about sentinels is written for its developers.
            words = "" if isinstance(error, MasterNotFoundError) else f" ({error})"
            return meaning.kind(f"{where}: {advice}{words}")
    if isinstance(error, exceptions.TimeoutError):
        return StoreUnavailable(
            f"{where} did not answer in time; what was sent may be done: {error}"
        )
    if isinstance(error, exceptions.ConnectionError):
        return StoreUnavailable(f"{where} cannot be reached: {error}")
    if isinstance(error, (exceptions.ClusterError, exceptions.RedisClusterException)):
        return StoreUnavailable(f"{where}: the cluster has no node for this: {error}")
    return StoreError(f"{where}: {error}")
