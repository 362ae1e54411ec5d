"""Route handlers that declare which problems they answer with, and a body as an example."""

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
    400: "A parameter or the body cannot be read.",
    401: "The token or the API key is missing, or not valid.",
    403: "The token is not for this act, queue or kind.",
    404: "It does not exist, or not for this caller.",
    408: "The body did not arrive in time.",
    409: "Things are not as the caller assumes; nothing was changed.",
    410: "Events after this cursor are no longer kept; `cursor` is where to go on.",
    412: "It is no longer as it was seen; nothing was changed.",
    413: "The body, a payload or a batch is too large.",
    415: "The body is not JSON.",
    422: "It can be read, but a name, a value or a combination is not allowed.",
    429: "Too much, too soon; `Retry-After` says when to try again. Nothing was done.",
    503: "The store cannot be reached, or the service is about to stop; try again.",
    504: "The result was not there in time; the job goes on.",
    507: "The store is full, or the queue has reached its own limit. Nothing was stored.",
}
"""What a problem of each status means."""

TICKET_QUERY_PARAMETER = Parameter(
    name=TICKET_PARAMETER,
    param_in="query",
    required=False,
    schema=Schema(type=OpenAPIType.STRING),
    description="From `POST …/v1/tickets`, for browsers: an EventSource sends no header.",
)


@dataclass
class DescribedOperation(Operation):
    """An operation with the problems that all of its sort have, and those of its own."""

    problems: ClassVar[frozenset[int]]
    example: ClassVar[Any]
    writes: ClassVar[bool]
    auth: ClassVar[Mapping[str, Any]]

    def __post_init__(self) -> None:
        body = self.request_body if isinstance(self.request_body, RequestBody) else None
        # Litestar describes its own format of errors as 400.
        responses = {name: said for name, said in (self.responses or {}).items() if name != "400"}
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
    said = {
        "problems": frozenset(problems),
        "example": example,
        "writes": writes,
        "auth": opt or {},
    }
    made: Callable[[Callable[..., Any]], HTTPRouteHandler] = decorator(
        path, operation_class=type("Described", (DescribedOperation,), said), opt=opt, **options
    )
    return made


get = partial(_route, litestar.get, writes=False)
get_or_head = partial(_route, partial(litestar.route, http_method=["GET", "HEAD"]), writes=False)
"""`get`, for a route that is cheap and changes nothing: it does not wait, claim or stream."""
post = partial(_route, litestar.post, writes=True)
put = partial(_route, litestar.put, writes=True)
patch = partial(_route, litestar.patch, writes=True)
delete = partial(_route, litestar.delete, writes=True)


def problem_responses() -> dict[str, OpenAPIResponse | Reference]:
    """The responses of all problems, by name."""
    return {
        _name(status): _response(status, meaning) for status, meaning in STATUS_MEANINGS.items()
    }


def _name(status: int) -> str:
    return http.HTTPStatus(status).phrase.replace(" ", "")


def _response(status: int, meaning: str) -> OpenAPIResponse:
    problem = OpenAPIMediaType(schema=Reference(ref="#/components/schemas/Problem"))
    again = OpenAPIHeader(description="Seconds.", schema=Schema(type=OpenAPIType.INTEGER))
    return OpenAPIResponse(
        description=meaning,
        content={MEDIA_TYPE: problem},
        headers={"Retry-After": again} if status in (429, 503) else None,
    )
