"""Bodies of requests: JSON read strictly, into structs, with errors that name the place."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from msgspec import UnsetType

from ackline.queue.transfer.documents import JSON_NULL
from ackline.service.http.body_memory import received_body
from ackline.service.http.gc_pause import gc_paused
from ackline.service.http.problems import ProblemError, TooLarge, WrongMediaType
from ackline.service.http.strict_json import read_json

LARGE = 64 * 1024
"""Bytes; a larger body is read in a thread, so that other requests do not wait for it."""

PAYLOAD_OVERHEAD = 128 * 1024
"""Bytes that a body with one payload may have in addition to it."""

MAX_LIST_ITEMS = 10_000
"""Objects in the list of a body: as many as `max_batch` can be."""


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of all bodies: an unknown field is refused by its name."""


class BatchBody(Body):
    """A body with a list of objects; too many are refused before they are created."""


def none_if_null(data: msgspec.Raw | UnsetType) -> msgspec.Raw | None:
    """A value as it was sent; None if it is null or was left out."""
    return None if isinstance(data, UnsetType) or data == JSON_NULL else data


class ClientDisconnected(ProblemError):
    """A client that went away in the middle of its request; nobody reads this answer."""

    type = "client-left"


class ServiceRequest(Request[Any, Any, Any]):
    """A request whose body is read strictly, and whose client may leave before it is complete."""

    async def json(self) -> Any:
        """The body as the struct that the route takes; a large one is read in a thread."""
        body = await self.body()
        media_type = self.headers.get("content-type", "").partition(";")[0].strip()
        if not is_json(media_type):
            sent = repr(media_type) if media_type else "none"
            raise WrongMediaType(f"the body must be application/json; its content type is {sent}")
        field = self.route_handler.parsed_data_field
        kind = field.annotation if field is not None else Any
        if len(body) > LARGE:
            return await asyncio.to_thread(_read_large, kind, body)
        return _read(kind, body)

    async def body(self) -> bytes:
        """The body, once all of it has come."""
        received = received_body(self.scope)
        if received.content is None:
            received.content = b"".join([piece async for piece in self.stream()])
        return received.content

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes."""
        try:
            async for piece in super().stream():
                yield piece
        except RequestEntityTooLarge:
            most = self.route_handler.resolve_request_max_body_size()
            raise TooLarge(f"the body is larger than {most:,} bytes: send less at once") from None
        except InternalServerException as error:
            raise ClientDisconnected("the client left before its request was complete") from error


def _read(body_type: Any, body: bytes) -> Any:
    most_members = MAX_LIST_ITEMS if issubclass(body_type, BatchBody) else None
    return read_json(body, _decoder(body_type), most_members)


def _read_large(kind: Any, body: bytes) -> Any:
    with gc_paused:
        return _read(kind, body)


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)


def is_json(media_type: str) -> bool:
    """Whether a content type says JSON."""
    return _JSON.fullmatch(media_type) is not None
