"""Translate failures of the service or the connection into Ackline's errors."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import msgspec

from ackline.core import errors
from ackline.core.errors import AcklineError, StoreError, StoreMismatch, StoreUnavailable

TYPE_PREFIX = "urn:ackline:problem:"
"""The prefix of the type of every problem that a service reports."""

ERROR_TYPES: Mapping[str, type[AcklineError]] = {
    "bad-body": errors.InvalidOption,
    "bad-request": errors.InvalidOption,
    "invalid-job": errors.InvalidJob,
    "invalid-name": errors.InvalidName,
    "invalid-option": errors.InvalidOption,
    "invalid-payload": errors.InvalidPayload,
    "payload-too-large": errors.PayloadTooLarge,
    "invalid-setting": errors.ConfigError,
    "events-dropped": errors.EventsDropped,
    "keys-changed": errors.KeysChanged,
    "store-failed": errors.StoreError,
    "store-unavailable": errors.StoreUnavailable,
    "store-full": errors.StoreFull,
    "store-read-only": errors.StoreReadOnly,
    "store-mismatch": errors.StoreMismatch,
}
"""The error that a service reports as a problem of this type."""

TRANSIENT_STATUSES = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses of errors that may be temporary, from the service or a proxy."""


class Problem(msgspec.Struct):
    """The used fields of a problem (RFC 9457)."""

    type: str = ""
    detail: str = ""
    cursor: str | None = None


def error_of(where: str, status: int, body: bytes) -> AcklineError:
    """The error for a response."""
    problem = _read(body)
    kind = ERROR_TYPES.get(problem.type.removeprefix(TYPE_PREFIX))
    if kind is not None and problem.type.startswith(TYPE_PREFIX):
        return _rebuild(kind, problem)
    if status == 401:
        return StoreError(
            f"{where} requires a valid token ({problem.detail}): pass token=… or set ACKLINE_TOKEN"
        )
    if status == 403:
        return errors.StoreForbidden(f"{where} does not allow this: {problem.detail}")
    if status in (404, 405) or 300 <= status < 400:
        return StoreMismatch(
            f"{where} is not an Ackline service that can be opened as a store (status {status}): "
            "does the URL end with its base path, as in https://host/api?"
        )
    if status == 413:
        advice = problem.detail or "send less in one call"
        return errors.InvalidPayload(f"{where} does not accept a request of this size: {advice}")
    if status in TRANSIENT_STATUSES:
        return StoreUnavailable(f"{where} is temporarily unavailable ({status}): {problem.detail}")
    return StoreError(f"{where} failed ({status}): {problem.detail or 'see its log'}")


def connection_error(where: str, error: Exception) -> StoreError:
    """The error for a connection that could not be established or was lost."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreError(
            f"the certificate of {where} is not trusted: {error.verify_message}. "
            "Name the authority that issued it with ?ca=FILE"
        )
    if isinstance(error, TimeoutError):
        return StoreUnavailable(
            f"{where} did not respond in time; the request may have been processed"
        )
    if isinstance(error, OSError):
        return StoreUnavailable(f"{where} cannot be reached: {error}")
    return StoreUnavailable(
        f"lost the connection to {where}; the request may have been processed: {error!r}"
    )


def _read(body: bytes) -> Problem:
    try:
        return msgspec.json.decode(body, type=Problem)
    except msgspec.DecodeError:
        return Problem()  # perhaps a response of a proxy


def _rebuild(kind: type[AcklineError], problem: Problem) -> AcklineError:
    """An error with its original message; its constructor would build a new one."""
    error = kind.__new__(kind)
    error.args = (problem.detail,)
    if isinstance(error, errors.EventsDropped):
        error.cursor = problem.cursor or ""
    return error
