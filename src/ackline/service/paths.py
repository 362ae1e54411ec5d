"""Paths and queries: an encoded name stays one name, and an unknown parameter is refused."""

from __future__ import annotations

import functools
from typing import Any, cast
from urllib.parse import unquote

from litestar import Request
from litestar.types import ASGIApp, Receive, Scope, Send

from ackline.service.problems import Refused
from ackline.service.streams import TICKET, is_stream

WHOLE_KEY = "key"
"""The one path parameter that has several segments."""


class KeepSegments:
    """Keeps an encoded slash apart from one between segments: `a%2Fb` is one name, `a/b` two.

    Servers decode the whole path before anyone has split it. So it is decoded here, with the
    two characters that would be misread encoded again, and `prepare` undoes that.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: Any = scope.get("raw_path") or b""
        if b"%" in raw:
            path = raw.partition(b"?")[0].decode("latin-1")
            segments = (unquote(segment, errors="surrogateescape") for segment in path.split("/"))
            kept = "/".join(s.replace("%", "%25").replace("/", "%2F") for s in segments)
            scope = cast("Scope", {**scope, "path": kept})
        await self._app(scope, receive, send)


async def prepare(request: Request[Any, Any, Any]) -> None:
    """What is done with each request before its route gets it."""
    _decode_names(request)
    if request.query_params:
        _refuse_unknown(request)


def _decode_names(request: Request[Any, Any, Any]) -> None:
    """Give routes the names as they were meant."""
    for name, value in request.path_params.items():
        if name != WHOLE_KEY and isinstance(value, str) and "%" in value:
            request.path_params[name] = unquote(value)


def _refuse_unknown(request: Request[Any, Any, Any]) -> None:
    known = _parameters_of(request.route_handler)
    for name in request.query_params:
        if name not in known:
            raise Refused(f"this route has no parameter {name!r}", at=name)


@functools.lru_cache(maxsize=1024)
def _parameters_of(handler: Any) -> frozenset[str]:
    fields = handler.parsed_fn_signature.parameters.values()
    named = {getattr(field.kwarg_definition, "name", None) or field.name for field in fields}
    return frozenset(named | {TICKET} if is_stream(handler) else named)


def parts_of(key: str) -> tuple[str, ...]:
    """The parts of a key that came as path segments."""
    return tuple(map(unquote, key.strip("/").split("/")))
