"""Request bodies: JSON, read strictly into structs, with errors that name the location."""

from __future__ import annotations

import asyncio
import functools
import gc
import re
import threading
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from msgspec import UnsetType

from ackline.queue.transfer.documents import JSON_NULL
from ackline.service.http.body_memory import received_body
from ackline.service.http.problems import ProblemError, TooLarge, WrongMediaType
from ackline.service.http.strict_json import read_json


class GcPause:
    """Pauses the garbage collector while large bodies are decoded, in any number of threads.

    None of a million new objects is garbage, and checking takes ten times as long as creation.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0
        self._was_enabled = True

    def __enter__(self) -> None:
        self._count(1)

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            if not self._readers:
                self._was_enabled = gc.isenabled()
            self._readers += change
            if self._readers:
                gc.disable()
            elif self._was_enabled:
                gc.enable()


gc_paused = GcPause()


THREAD_ABOVE_BYTES = 64 * 1024
"""Larger bodies, in bytes, are decoded in a thread, so that other requests need not wait."""

PAYLOAD_OVERHEAD = 128 * 1024
"""Maximum bytes of a body with one payload, in addition to the payload."""

MAX_LIST_ITEMS = 10_000
"""Maximum number of objects in the list of a body: the maximum of `max_batch`."""


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of all bodies: unknown fields are refused by name."""


class BatchBody(Body):
    """A body with a list of objects; too many are refused before they are decoded."""


def none_if_null(data: msgspec.Raw | UnsetType) -> msgspec.Raw | None:
    """A value as sent; None if it is null or was left out."""
    return None if isinstance(data, UnsetType) or data == JSON_NULL else data


class ClientDisconnected(ProblemError):
    """The client disconnected in the middle of its request; nobody reads this response."""

    type = "client-disconnected"


class ServiceRequest(Request[Any, Any, Any]):
    """A request whose body is decoded strictly, and whose client may disconnect early."""

    async def json(self) -> Any:
        """The body as the struct that the route takes; large ones are decoded in a thread."""
        body = await self.body()
        media_type = self.headers.get("content-type", "").partition(";")[0].strip()
        if not is_json(media_type):
            sent = f"but it is {media_type!r}" if media_type else "but no content type was sent"
            raise WrongMediaType(f"the body must be application/json, {sent}")
        field = self.route_handler.parsed_data_field
        body_type = field.annotation if field is not None else Any
        if len(body) > THREAD_ABOVE_BYTES:
            return await asyncio.to_thread(_read_large, body_type, body)
        return _read(body_type, body)

    async def body(self) -> bytes:
        """The whole body, once it has arrived."""
        received = received_body(self.scope)
        if received.content is None:
            received.content = b"".join([chunk async for chunk in self.stream()])
        return received.content

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The body, chunk by chunk as it arrives."""
        try:
            async for chunk in super().stream():
                yield chunk
        except RequestEntityTooLarge:
            max_bytes = self.route_handler.resolve_request_max_body_size()
            raise TooLarge(
                f"the body has more than {max_bytes:,} bytes: send less at a time"
            ) from None
        except InternalServerException as error:
            raise ClientDisconnected(
                "the client disconnected before the request was complete"
            ) from error


def _read(body_type: Any, body: bytes) -> Any:
    max_list_items = MAX_LIST_ITEMS if issubclass(body_type, BatchBody) else None
    return read_json(body, _decoder(body_type), max_list_items)


def _read_large(body_type: Any, body: bytes) -> Any:
    with gc_paused:
        return _read(body_type, body)


@functools.cache
def _decoder(body_type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(body_type)


_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)


def is_json(media_type: str) -> bool:
    """Whether a content type is JSON."""
    return _JSON.fullmatch(media_type) is not None
