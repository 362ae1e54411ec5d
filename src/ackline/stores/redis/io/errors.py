"""Translates the client library's errors into Ackline's, which say what to do."""

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
    """What an error of the client library means, and what to do about it."""

    kind: type[StoreError]
    advice: str
    classes: tuple[type[Exception], ...] = ()
    texts: tuple[str, ...] = ()
    """Parts of the message: for errors in a script, older servers report nothing else."""

    def fits(self, error: Exception) -> bool:
        return isinstance(error, self.classes) or any(text in str(error) for text in self.texts)


_MEANINGS = (
    _ErrorMeaning(
        StoreFull,
        "out of memory (maxmemory): process or purge jobs, or increase the limit; "
        "settling, cancelling and purging still work",
        (exceptions.OutOfMemoryError,),
        ("OOM ",),
    ),
    _ErrorMeaning(
        StoreReadOnly,
        "it is a read-only replica: use the primary, or let redis+sentinel:// find it",
        (exceptions.ReadOnlyError,),
        ("READONLY",),
    ),
    _ErrorMeaning(
        StoreReadOnly,
        "it refuses writes because it cannot save to disk: see its log",
        texts=("MISCONF",),
    ),
    _ErrorMeaning(
        StoreUnavailable,
        "too few replicas are connected to it (min-replicas-to-write)",
        texts=("NOREPLICAS",),
    ),
    _ErrorMeaning(
        StoreUnavailable,
        "it is still loading its data from disk",
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
        "the cluster does not serve all slots: see CLUSTER INFO",
        (exceptions.ClusterDownError,),
        ("CLUSTERDOWN",),
    ),
    _ErrorMeaning(
        StoreUnavailable,
        "the slot is being migrated to another node",
        (exceptions.TryAgainError,),
        ("TRYAGAIN",),
    ),
    _ErrorMeaning(StoreUnavailable, "it is busy with another client's script", texts=("BUSY ",)),
    _ErrorMeaning(
        StoreMismatch,
        "another program uses this key prefix: choose another one with ?prefix=…",
        texts=("WRONGTYPE",),
    ),
    _ErrorMeaning(
        StoreError,
        "it has no password, but the URL has one",
        texts=("without any password configured",),
    ),
    _ErrorMeaning(
        StoreError,
        "it requires a password: redis://:PASSWORD@HOST",
        texts=("NOAUTH", "Authentication required"),
    ),
    _ErrorMeaning(
        StoreError,
        "wrong user or password: check the URL, redis://USER:PASSWORD@HOST",
        (exceptions.AuthenticationError, exceptions.AuthenticationWrongNumberOfArgsError),
        ("WRONGPASS", "invalid username-password"),
    ),
    _ErrorMeaning(
        StoreError,
        "permission denied: the user needs +@all, the keys ~{prefix}:* and the channels "
        "&{prefix}:*",
        (exceptions.NoPermissionError,),
        ("NOPERM", "can't publish to the channel", "permissions to access", "permissions to run"),
    ),
    _ErrorMeaning(
        StoreError,
        "it is not a cluster: use redis://…",
        texts=("Cluster mode is not enabled",),
    ),
    _ErrorMeaning(
        StoreError,
        "it is not a sentinel: use redis://… for a server",
        texts=("'SENTINEL'", "`SENTINEL`"),
    ),
    _ErrorMeaning(
        StoreUnavailable,
        "no sentinel answers, or none knows a primary of this name at the moment",
        (MasterNotFoundError,),
    ),
    _ErrorMeaning(
        StoreError,
        "it has no database with this number: check the URL",
        texts=("DB index is out of range",),
    ),
    _ErrorMeaning(
        StoreError,
        "a cluster only has database 0: remove the number",
        texts=("SELECT is not allowed",),
    ),
    _ErrorMeaning(
        StoreError,
        "it is too old, or it is a proxy that does not support the command",
        texts=("unknown command",),
    ),
)


class TranslateErrors:
    """A context in which Ackline's errors are raised instead of the client library's.

    Every command is sent in it. It is immutable, so all threads share one.
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
    """Ackline's error for an error of the client library."""
    for meaning in _MEANINGS:
        if meaning.fits(error):
            advice = meaning.advice.format(prefix=prefix)
            # The library's message about sentinels is written for its developers.
            detail = "" if isinstance(error, MasterNotFoundError) else f" ({error})"
            return meaning.kind(f"{where}: {advice}{detail}")
    if isinstance(error, exceptions.TimeoutError):
        return StoreUnavailable(
            f"{where} did not answer in time; what was sent may have been executed: {error}"
        )
    if isinstance(error, exceptions.ConnectionError):
        return StoreUnavailable(f"{where} cannot be reached: {error}")
    if isinstance(error, (exceptions.ClusterError, exceptions.RedisClusterException)):
        return StoreUnavailable(f"{where}: no node of the cluster could be used: {error}")
    return StoreError(f"{where}: {error}")
