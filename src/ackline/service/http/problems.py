"""Every error as a problem detail (RFC 9457): one mapping from errors to responses."""

from __future__ import annotations

import http
import logging
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, ValidationException
from msgspec import UNSET, Meta, UnsetType

from ackline.core import errors
from ackline.core.errors import AcklineError

logger = logging.getLogger("ackline.service")

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:ackline:problem:"
"""The prefix of a problem's `type`; the rest is a name for programs to compare."""

RETRY_AFTER = 1
"""Seconds after which to retry what a busy store or service refused."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An error as an RFC 9457 problem: what went wrong, where, and what to do."""

    type: Annotated[str, Meta(description="`urn:ackline:problem:` and a name.")]
    title: str
    status: int
    detail: Annotated[str, Meta(description="What went wrong, and what to do.")]
    at: Annotated[str, Meta(description="The path in the body, or the parameter.")] | UnsetType = (
        UNSET
    )
    state: Annotated[str, Meta(description="The state of the job.")] | UnsetType = UNSET
    cursor: Annotated[str, Meta(description="Where the kept events start.")] | UnsetType = UNSET


class ProblemError(AcklineError):
    """An error of the service itself; becomes a problem."""

    status = 400
    type = "bad-request"

    def __init__(self, detail: str, *, at: str | None = None) -> None:
        super().__init__(detail)
        self.at = at

    @property
    def headers(self) -> dict[str, str]:
        """Headers to send with the problem."""
        return {}


class Forbidden(ProblemError):
    """The caller is authenticated, but may not do this."""

    status = 403
    type = "forbidden"


class Unauthorized(ProblemError):
    """The caller is not authenticated."""

    status = 401
    type = "unauthorized"


class NotFound(ProblemError):
    """It does not exist, or not for this caller."""

    status = 404
    type = "not-found"


class Unprocessable(ProblemError):
    """Well formed, but invalid: a wrong cursor, or fields that exclude each other."""

    status = 422
    type = "unprocessable"


class MalformedHttp(ProblemError):
    """A request that is not valid HTTP."""

    type = "malformed-http"


class WrongMethod(ProblemError):
    """A method that this path does not have."""

    status = 405
    type = "method-not-allowed"

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{method} is not supported here, only {allowed}")
        self._allowed = allowed

    @property
    def headers(self) -> dict[str, str]:
        """The methods of the path."""
        return {"allow": self._allowed}


class RequestTimeout(ProblemError):
    """A request that did not arrive completely in time."""

    status = 408
    type = "request-timeout"


class Conflict(ProblemError):
    """Conflicts with the current state."""

    status = 409
    type = "conflict"


class ShuttingDown(ProblemError):
    """The service is shutting down."""

    status = 503
    type = "shutting-down"

    @property
    def headers(self) -> dict[str, str]:
        """When to retry."""
        return {"retry-after": str(RETRY_AFTER)}


class Busy(ShuttingDown):
    """The service cannot take more requests at the moment."""

    type = "busy"


class TooLarge(ProblemError):
    """The body, a line or a batch is too large."""

    status = 413
    type = "too-large"


class WrongMediaType(ProblemError):
    """The body has an unsupported content type."""

    status = 415
    type = "wrong-media-type"


LIBRARY_ERRORS: Mapping[type[AcklineError], tuple[int, str]] = {
    errors.InvalidJob: (422, "invalid-job"),
    errors.InvalidName: (422, "invalid-name"),
    errors.InvalidOption: (422, "invalid-option"),
    errors.InvalidPayload: (422, "invalid-payload"),
    errors.PayloadTooLarge: (413, "payload-too-large"),
    errors.ConfigError: (422, "invalid-setting"),
    errors.Timeout: (504, "timeout"),
    errors.JobNotFound: (404, "not-found"),
    errors.JobFailed: (409, "job-failed"),
    errors.MaxAttemptsExceeded: (409, "max-attempts-exceeded"),
    errors.JobCancelled: (409, "job-cancelled"),
    errors.WrongState: (409, "wrong-state"),
    errors.JobChanged: (412, "changed"),
    errors.QueueNotEmpty: (409, "queue-not-empty"),
    errors.LeaseLost: (409, "lease-lost"),
    errors.EventsDropped: (410, "events-dropped"),
    errors.ReaderMoved: (409, "reader-moved"),
    errors.KeysChanged: (409, "keys-changed"),
    errors.StoreError: (503, "store-failed"),
    errors.StoreUnavailable: (503, "store-unavailable"),
    errors.StoreFull: (507, "store-full"),
    errors.StoreReadOnly: (503, "store-read-only"),
    errors.StoreMismatch: (503, "store-mismatch"),
    AcklineError: (500, "internal"),
}
"""The status and type of each library error; the nearest base class counts."""


def problem_of(error: Exception) -> Problem:
    """The problem of an error."""
    match error:
        case ProblemError():
            return _problem(error.status, error.type, str(error), at=error.at)
        case AcklineError():
            return _from_library_error(error)
        case ValidationException():
            return _from_validation_error(error)
        case HTTPException():
            type_name = http.HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
            return _problem(error.status_code, type_name, error.detail or type_name)
        case _:
            return _problem(500, "internal", "internal error; see the log of the service")


def to_response(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """The response to an error; only errors of the service itself are logged."""
    if isinstance(error, MethodNotAllowedException):
        error = _wrong_method(request, error)
    problem = problem_of(error)
    if isinstance(error, ValidationException) and problem.at is not UNSET:
        problem = msgspec.structs.replace(problem, at=_public_name(request, problem.at))
    if problem.status == 500:
        logger.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    return Response(
        problem,
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=_headers(problem, error),
    )


def raw_response(error: ProblemError) -> bytes:
    """The bytes of a response outside of a request; it closes the connection."""
    problem = problem_of(error)
    body = msgspec.json.encode(problem)
    lines = [
        f"HTTP/1.1 {problem.status} {problem.title}",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _problem(status: int, type_name: str, detail: str, **more: Any) -> Problem:
    title = http.HTTPStatus(status).phrase
    fields = {name: value for name, value in more.items() if value is not None}
    return Problem(
        type=TYPE_PREFIX + type_name, title=title, status=status, detail=detail, **fields
    )


def _from_library_error(error: AcklineError) -> Problem:
    status, type_name = next(
        LIBRARY_ERRORS[base] for base in type(error).__mro__ if base in LIBRARY_ERRORS
    )
    state = getattr(error, "state", None)
    cursor = error.cursor if isinstance(error, errors.EventsDropped) else None
    return _problem(status, type_name, str(error), state=state and str(state), cursor=cursor)


def _from_validation_error(error: ValidationException) -> Problem:
    details = error.extra if isinstance(error.extra, list) else []
    messages = [f"{one.get('key', 'request')}: {one.get('message', '')}" for one in details]
    at = details[0].get("key") if details else None
    if at == "data":
        return _problem(400, "bad-body", "the body is missing", at="$")
    return _problem(400, "bad-request", "; ".join(messages) or error.detail, at=at)


def _wrong_method(request: Request[Any, Any, Any], error: MethodNotAllowedException) -> WrongMethod:
    allowed = (error.headers or {}).get("allow", "")
    return WrongMethod(request.method, ", ".join(sorted(allowed.split(", "))))


def _public_name(request: Request[Any, Any, Any], name: str) -> str:
    """The name of a parameter as clients send it, which may differ from the one in the code."""
    field = request.route_handler.parsed_fn_signature.parameters.get(name)
    return getattr(field and field.kwarg_definition, "name", None) or name


def _headers(problem: Problem, error: Exception) -> dict[str, str]:
    headers = {"cache-control": "no-store"}
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    if problem.status == 503:
        headers["retry-after"] = str(RETRY_AFTER)
    if isinstance(error, ProblemError):
        headers |= error.headers
    return headers
