"""Paths, queries and HEAD: what Litestar does not do by itself."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from litestar import Request, Response
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from litestar.typing import FieldDefinition

from ackline.service.http.problems import ProblemError, WrongMediaType
from ackline.service.http.sse import TICKET_PARAMETER, is_event_stream

IF_MATCH = "If-Match"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

BATCH, ESCAPED_BATCH = "/jobs/batch", "/jobs/%62atch"
SINGLE_JOB_METHODS = frozenset({"GET", "HEAD", "PATCH", "DELETE"})
"""Methods of the route of one job, whose id may be `batch`, like the route for many jobs."""

MULTI_SEGMENT_PARAMETER = "key"
"""The only path parameter with several segments."""


class KeepSegments:
    """ASGI middleware that keeps encoded slashes: `a%2Fb` is one name, `a/b` is two.

    Servers decode the whole path before it is split. So the raw path is split and decoded here,
    with the two ambiguous characters encoded again; `prepare` decodes them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fields = cast("dict[str, Any]", scope)
        raw: bytes = fields.get("raw_path") or b""
        kept = path = fields.get("path", "")
        if b"%" in raw:
            sent = raw.partition(b"?")[0].decode("latin-1")
            segments = (unquote(segment, errors="surrogateescape") for segment in sent.split("/"))
            kept = "/".join(s.replace("%", "%25").replace("/", "%2F") for s in segments)
        if kept.endswith(BATCH) and fields.get("method") in SINGLE_JOB_METHODS:
            kept = kept.removesuffix(BATCH) + ESCAPED_BATCH
        if kept != path:
            scope = cast("Scope", {**fields, "path": kept})
        await self._app(scope, receive, send)


async def prepare(request: Request[Any, Any, Any]) -> Response[None] | None:
    """Answer OPTIONS; otherwise decode names, and refuse what the route would ignore."""
    if request.method == "OPTIONS":
        return _allowed(request)
    _decode_names(request)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise WrongMediaType("compressed bodies are not supported: leave out Content-Encoding")
    if IF_MATCH in request.headers and request.method not in SAFE_METHODS:
        _refuse_ignored_if_match(request)
    if request.query_params:
        _refuse_unknown_query(request)
    return None


def _allowed(request: Request[Any, Any, Any]) -> Response[None]:
    """The methods of a path; Litestar's own response has only those of the first route."""
    path = request.scope["path_template"]
    routes = (route for route in request.app.routes if route.path_format == path)
    methods = {name for route in routes if isinstance(route, HTTPRoute) for name in route.methods}
    return Response(None, status_code=204, headers={"allow": ", ".join(sorted(methods))})


def _refuse_ignored_if_match(request: Request[Any, Any, Any]) -> None:
    """Refuse a condition that the route does not check."""
    if IF_MATCH not in _parameters_of(request.route_handler):
        raise ProblemError(
            f"this route does not check {IF_MATCH}, so nothing was done: leave the header out",
            at=IF_MATCH,
        )


def _decode_names(request: Request[Any, Any, Any]) -> None:
    """Decode the names in the path, which `KeepSegments` has encoded."""
    # A new dict: Litestar shares one among all requests of a path.
    request.scope["path_params"] = {
        name: unquote(value)
        if isinstance(value, str) and name != MULTI_SEGMENT_PARAMETER
        else value
        for name, value in request.path_params.items()
    }


def _refuse_unknown_query(request: Request[Any, Any, Any]) -> None:
    known = _parameters_of(request.route_handler)
    for name, values in request.query_params.dict().items():
        if name not in known:
            raise ProblemError(f"this route has no parameter {name!r}", at=name)
        if len(values) > 1 and not known[name].repeatable:
            raise ProblemError(f"{name!r} was given {len(values)} times: give it once", at=name)
        if values == ["null"] and known[name].numeric:
            raise ProblemError(f"{name!r} must be a number; leave it out for the default", at=name)


class QueryParameterInfo(NamedTuple):
    """A query parameter: whether it may be repeated, and whether it is a number."""

    repeatable: bool
    numeric: bool


@functools.lru_cache(maxsize=1024)
def _parameters_of(handler: Any) -> dict[str, QueryParameterInfo]:
    fields = handler.parsed_fn_signature.parameters.values()
    named = {
        getattr(field.kwarg_definition, "name", None) or field.name: _parameter(field)
        for field in fields
    }
    return (
        {**named, TICKET_PARAMETER: QueryParameterInfo(False, False)}
        if is_event_stream(handler)
        else named
    )


def _parameter(field: FieldDefinition) -> QueryParameterInfo:
    types = (field, *field.inner_types)
    return QueryParameterInfo(
        repeatable=any(type_.is_non_string_sequence for type_ in types),
        numeric=any(type_.annotation in (int, float) for type_ in types),
    )


def key_parts(key: str) -> tuple[str, ...]:
    """The parts of a key, from the segments of a path."""
    return tuple(map(unquote, key.strip("/").split("/")))


class OmitHeadBody:
    """ASGI middleware that leaves out the body of responses to HEAD, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if cast("dict[str, object]", scope).get("method") != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = cast("Message", {**message, "body": b""})
            await send(message)

        await self._app(scope, receive, send_head)
