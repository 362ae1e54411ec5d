"""Translate psycopg's errors into Ackline's, which say what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from ackline.core.errors import (
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)

RETRYABLE = frozenset({"40001", "40P01"})
"""Conflicts with other transactions, after which a retry may succeed."""

Meaning = tuple[type[StoreError], str]

_BY_CODE: dict[str, Meaning] = {
    "25006": (StoreReadOnly, "it is a standby, or this user may only read: name the primary, or "
              "several hosts with ?target_session_attrs=read-write"),
    "53100": (StoreFull, "its disk is full: free some space. Pruning and purging also "
              "make space for new jobs"),
    "53200": (StoreFull, "it is out of memory"),
    "53300": (StoreUnavailable, "it has no free connections: raise max_connections, "
              "or lower ?connections=…"),
    "42501": (StoreError, "this user may not do that: the owner of the schema can grant it, "
              "or run `ackline migrate` once as that owner"),
    "42P01": (StoreMismatch, "a table is missing: run `ackline migrate`, or upgrade this "
              "installation"),
    "42703": (StoreMismatch, "a column is missing: run `ackline migrate`, or upgrade this "
              "installation"),
    "42883": (StoreMismatch, "a function is missing: run `ackline migrate`, or upgrade this "
              "installation; and PostgreSQL must be 13 or newer"),
    "3F000": (StoreMismatch, "the schema is missing: run `ackline migrate`"),
    "3D000": (StoreError, "there is no such database: create it, or check the URL"),
    "28P01": (StoreError, "it does not accept this user and password: check the URL"),
    "28000": (StoreError, "it does not allow this user to connect: "
              "check the URL and its pg_hba.conf"),
    "25P02": (StoreError, "the transaction has already failed: roll it back; nothing was changed"),
    "55P03": (StoreUnavailable, "another session holds a lock that is needed, "
              "for longer than ?timeout=…: end its transaction, or try again; nothing was changed"),
    "57014": (StoreUnavailable, "the statement was cancelled, or took longer than "
              "statement_timeout allows"),
    "40001": (StoreUnavailable, "other transactions kept changing the same jobs"),
    "40P01": (StoreUnavailable, "other transactions kept locking the same jobs"),
    "26000": (StoreError, "a prepared statement does not exist: behind a pooler add "
              "?pooler=transaction, and prepare=yes only if it supports them"),
    "42P05": (StoreError, "a prepared statement already exists: behind a pooler add "
              "?pooler=transaction, and prepare=yes only if it supports them"),
    "22021": (StoreError, "the database has an encoding other than UTF8: create it with UTF8"),
}  # fmt: skip

_BY_CLASS: dict[str, Meaning] = {
    "08": (StoreUnavailable, "the connection broke; the last change may have been committed"),
    "57": (StoreUnavailable, "it is shutting down or starting up, or closed the connection"),
    "53": (StoreUnavailable, "it lacks a resource"),
    "58": (StoreUnavailable, "its machine has a problem: see its log"),
    "XX": (StoreError, "it has an internal error: see its log"),
}

# Only the message says why a connection was refused. The quotes tell names from words, such as in
# "the database system is starting up".
_BY_TEXT: tuple[tuple[str, Meaning], ...] = (
    ("too many connections for", _BY_CODE["53300"]),
    ("password authentication failed", _BY_CODE["28P01"]),
    (
        "no password supplied",
        (StoreError, "it requires a password: postgresql://USER:PASSWORD@HOST"),
    ),
    ("pg_hba.conf", _BY_CODE["28000"]),
    ('role "', _BY_CODE["28000"]),
    ('database "', _BY_CODE["3D000"]),
    ("the database system is", _BY_CLASS["57"]),
    ("too many clients", _BY_CODE["53300"]),
    ("remaining connection slots", _BY_CODE["53300"]),
    ("session is read-only", _BY_CODE["25006"]),
    ("server is in hot standby", _BY_CODE["25006"]),
    (
        "unsupported startup parameter",
        (StoreError, "this is a connection pooler: add ?pooler=transaction"),
    ),
)


@contextlib.contextmanager
def translate_errors(where: str) -> Iterator[None]:
    """Raise Ackline's errors instead of psycopg's."""
    try:
        yield
    except psycopg.Error as error:
        raise translate_error(error, where) from error
    except OSError as error:
        raise StoreUnavailable(f"{where} cannot be reached: {error}") from error


def translate_error(error: psycopg.Error, where: str) -> StoreError:
    """Ackline's error for an error of psycopg."""
    text = " ".join(str(error).split())
    kind, meaning = _meaning_of(error, text)
    return kind(f"{where}: {meaning} ({text})")


def _meaning_of(error: psycopg.Error, text: str) -> Meaning:
    code = error.sqlstate or ""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if code[:2] in _BY_CLASS:
        return _BY_CLASS[code[:2]]
    if not code and isinstance(error, psycopg.OperationalError):
        for sign, meaning in _BY_TEXT:
            if sign in text:
                return meaning
        return StoreUnavailable, "it cannot be reached, or the connection broke"
    return StoreError, "the statement failed"
