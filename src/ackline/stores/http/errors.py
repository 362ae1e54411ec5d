"""Failures of the service, or on the way there, as Ackline's errors."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import msgspec

from ackline.core import errors
from ackline.core.errors import AcklineError, StoreError, StoreMismatch, StoreUnavailable

TYPE_PREFIX = "urn:ackline:problem:"
"""The beginning of the type of every problem that a service reports."""

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
"""The error from which the service made a problem, by the problem's type."""

TRANSIENT_STATUSES = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses that may go away at the next try, whether the service or a proxy answered."""


class Problem(msgspec.Struct):
    """The fields of a problem (RFC 9457) that are read."""

    type: str = ""
    detail: str = ""
    cursor: str | None = None


def error_of(where: str, status: int, body: bytes) -> AcklineError:
    """The error that an answer stands for."""
    problem = _read(body)
    kind = ERROR_TYPES.get(problem.type.removeprefix(TYPE_PREFIX))
    if kind is not None and problem.type.startswith(TYPE_PREFIX):
        return _rebuild(kind, problem)
    if status == 401:
        return StoreError(
            f"{where} wants a token that it knows ({problem.detail}): "
            "pass token=… or set ACKLINE_TOKEN"
        )
    if status == 403:
        return errors.StoreForbidden(f"{where} does not allow this: {problem.detail}")
    if status in (404, 405) or 300 <= status < 400:
        return StoreMismatch(
            f"{where} is not an Ackline service that can be opened as a store (status {status}): "
            "does the URL end with its base path, as in https://host/api?"
        )
    if status == 413:
        why = problem.detail or "send less at once"
        return errors.InvalidPayload(f"{where} takes no request of this size: {why}")
    if status in TRANSIENT_STATUSES:
        return StoreUnavailable(f"{where} cannot do it now ({status}): {problem.detail}")
    return StoreError(f"{where} failed ({status}): {problem.detail or 'its log may say why'}")


def connection_error(where: str, error: Exception) -> StoreError:
    """The error for a connection that could not be made, or was cut."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreError(
            f"the certificate of {where} cannot be trusted: {error.verify_message}. "
            "?ca=FILE names the authority that issued it"
        )
    if isinstance(error, TimeoutError):
        return StoreUnavailable(f"{where} did not answer in time; what was sent may be done")
    if isinstance(error, OSError):
        return StoreUnavailable(f"{where} cannot be reached: {error}")
    return StoreUnavailable(f"{where} was cut off; what was sent may be done: {error!r}")


def _read(body: bytes) -> Problem:
    try:
        return msgspec.json.decode(body, type=Problem)
    except msgspec.DecodeError:
        return Problem()  # perhaps a proxy's answer, which has its own format


def _rebuild(kind: type[AcklineError], problem: Problem) -> AcklineError:
    """An error with its original message; its constructor would make a new one."""
    error = kind.__new__(kind)
    error.args = (problem.detail,)
    if isinstance(error, errors.EventsDropped):
        error.cursor = problem.cursor or ""
    return error
