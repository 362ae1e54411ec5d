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

from ackline.queue.documents import NULL
from ackline.service.body_memory import body_of
from ackline.service.collector import collector_paused
from ackline.service.problems import Refused, TooLarge, WrongMediaType
from ackline.service.strict_json import read_json

LARGE = 64 * 1024
"""Bytes; a larger body is read in a thread, so that other requests do not wait for it."""

BESIDE_PAYLOAD = 128 * 1024
"""Bytes that a body with one payload may have in addition to it."""

MOST_MEMBERS = 10_000
"""Objects in the list of a body: as many as `max_batch` can be."""


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of all bodies: an unknown field is refused by its name."""


class ManyBody(Body):
    """A body with a list of objects; too many are refused before they are created."""


def unless_null(data: msgspec.Raw | UnsetType) -> msgspec.Raw | None:
    """A value as it was sent; None if it is null or was left out."""
    return None if isinstance(data, UnsetType) or data == NULL else data


class ClientLeft(Refused):
    """A client that went away in the middle of its request; nobody reads this answer."""

    type = "client-left"


class PatientRequest(Request[Any, Any, Any]):
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
        received = body_of(self.scope)
        if received.whole is None:
            received.whole = b"".join([piece async for piece in self.stream()])
        return received.whole

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes."""
        try:
            async for piece in super().stream():
                yield piece
        except RequestEntityTooLarge:
            most = self.route_handler.resolve_request_max_body_size()
            raise TooLarge(f"the body is larger than {most:,} bytes: send less at once") from None
        except InternalServerException as error:
            raise ClientLeft("the client left before its request was complete") from error


def _read(kind: Any, body: bytes) -> Any:
    most_members = MOST_MEMBERS if issubclass(kind, ManyBody) else None
    return read_json(body, _decoder(kind), most_members)


def _read_large(kind: Any, body: bytes) -> Any:
    with collector_paused:
        return _read(kind, body)


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)


def is_json(media_type: str) -> bool:
    """Whether a content type says JSON."""
    return _JSON.fullmatch(media_type) is not None
