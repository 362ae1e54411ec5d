"""Decorators of route handlers, which declare their problems and an example body for OpenAPI."""

from __future__ import annotations

import http
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import litestar
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import (
    OpenAPIHeader,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Operation,
    Parameter,
    Reference,
    RequestBody,
    Schema,
)

from ackline.service.auth.guard import NO_AUTH, OPTIONAL_AUTH
from ackline.service.http.problems import MEDIA_TYPE
from ackline.service.http.sse import MEDIA_TYPE as STREAM
from ackline.service.http.sse import TICKET_PARAMETER

STATUS_MEANINGS: Mapping[int, str] = {
    400: "A parameter or the body is malformed.",
    401: "The token or API key is missing or invalid.",
    403: "The token does not allow this.",
    404: "It does not exist, or not for this caller.",
    408: "The body did not arrive in time.",
    409: "Conflicts with the current state; nothing was changed.",
    410: "Events after this cursor are no longer kept; continue at `cursor`.",
    412: "It has changed since it was read; nothing was changed.",
    413: "The body, a payload or a batch is too large.",
    415: "The body is not JSON.",
    422: "Well formed, but a name, value or combination is invalid.",
    429: "A limit is exceeded; `Retry-After` says when to retry. Nothing was done.",
    503: "The store is unavailable, or the service is shutting down; retry.",
    504: "There was no result in time; the job continues.",
    507: "The store or the queue is full; nothing was stored.",
}
"""The meaning of each status of a problem."""

TICKET_QUERY_PARAMETER = Parameter(
    name=TICKET_PARAMETER,
    param_in="query",
    required=False,
    schema=Schema(type=OpenAPIType.STRING),
    description="From `POST …/v1/tickets`, for browsers: an EventSource sends no header.",
)


@dataclass
class DescribedOperation(Operation):
    """An OpenAPI operation with its common problems, and its own."""

    problems: ClassVar[frozenset[int]]
    example: ClassVar[Any]
    writes: ClassVar[bool]
    auth: ClassVar[Mapping[str, Any]]

    def __post_init__(self) -> None:
        body = self.request_body if isinstance(self.request_body, RequestBody) else None
        # Litestar describes its own format of errors as 400.
        responses = {
            name: attributes for name, attributes in (self.responses or {}).items() if name != "400"
        }
        if any(map(_is_stream, responses.values())):
            self.parameters = [*(self.parameters or ()), TICKET_QUERY_PARAMETER]
        for status in sorted(self._statuses(body)):
            responses.setdefault(
                str(status), Reference(ref=f"#/components/responses/{_name(status)}")
            )
        self.responses = responses
        if self.auth == NO_AUTH:
            self.security = []
        if body is not None and self.example is not None:
            body.content["application/json"].example = self.example

    def _statuses(self, body: RequestBody | None) -> Iterable[int]:
        yield 400
        if self.auth == NO_AUTH:
            return
        yield from (401, 429)
        if self.auth == OPTIONAL_AUTH:
            return
        yield from (403, 503)
        if body is not None or self.parameters:
            yield 422
        if body is not None:
            yield from (408, 413, 415)
        if self.writes:
            yield 507
        yield from self.problems


def _is_stream(response: OpenAPIResponse | Reference) -> bool:
    return isinstance(response, OpenAPIResponse) and STREAM in (response.content or {})


def _route(
    decorator: Callable[..., Any],
    path: str | list[str],
    *,
    writes: bool,
    problems: Iterable[int] = (),
    example: Any = None,
    opt: Mapping[str, Any] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    attributes = {
        "problems": frozenset(problems),
        "example": example,
        "writes": writes,
        "auth": opt or {},
    }
    decorated: Callable[[Callable[..., Any]], HTTPRouteHandler] = decorator(
        path,
        operation_class=type("Described", (DescribedOperation,), attributes),
        opt=opt,
        **options,
    )
    return decorated


get = partial(_route, litestar.get, writes=False)
get_or_head = partial(_route, partial(litestar.route, http_method=["GET", "HEAD"]), writes=False)
"""`get` and HEAD, for a cheap route that changes nothing: it does not wait, claim or stream."""
post = partial(_route, litestar.post, writes=True)
put = partial(_route, litestar.put, writes=True)
patch = partial(_route, litestar.patch, writes=True)
delete = partial(_route, litestar.delete, writes=True)


def problem_responses() -> dict[str, OpenAPIResponse | Reference]:
    """The OpenAPI responses of all problems, by name."""
    return {
        _name(status): _response(status, meaning) for status, meaning in STATUS_MEANINGS.items()
    }


def _name(status: int) -> str:
    return http.HTTPStatus(status).phrase.replace(" ", "")


def _response(status: int, meaning: str) -> OpenAPIResponse:
    problem = OpenAPIMediaType(schema=Reference(ref="#/components/schemas/Problem"))
    retry_after = OpenAPIHeader(
        description="Seconds until a retry.", schema=Schema(type=OpenAPIType.INTEGER)
    )
    return OpenAPIResponse(
        description=meaning,
        content={MEDIA_TYPE: problem},
        headers={"Retry-After": retry_after} if status in (429, 503) else None,
    )
