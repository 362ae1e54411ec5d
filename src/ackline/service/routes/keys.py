"""Keys: values of clients, and what undeliverable messages left."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter, QueryParameter
from litestar.response import Stream

from ackline.service.auth.caller import Caller
from ackline.service.http.parameters import Ok
from ackline.service.http.paths import key_parts
from ackline.service.http.request_body import Body
from ackline.service.http.sse import stream_response
from ackline.service.keyspace.documents import KeyDocument
from ackline.service.keyspace.keyspace import Keyspace
from ackline.service.routes.decorators import delete, get, get_or_head, put

Prefix = Annotated[
    list[str] | None,
    QueryParameter(description="The first parts of the keys; repeat it for each part."),
]
After = Annotated[
    list[str] | None,
    QueryParameter(description="Only keys after this one; repeat it for each part."),
]
WholeKey = Annotated[
    str, PathParameter(description="The parts of the key, one segment each, percent-encoded.")
]


class KeyBody(Body):
    """A value; with a version, it is only set if the key still has that version (0: is absent)."""

    value: msgspec.Raw
    version: Annotated[int, msgspec.Meta(ge=0)] | None = None


@get("/keys", summary="List keys")
async def list_keys(
    caller: NamedDependency[Caller],
    prefix: Prefix = None,
    limit: Annotated[int, QueryParameter(ge=1, le=10_000)] = 1000,
    after: After = None,
) -> list[KeyDocument]:
    """The keys that start with these parts, in order.

    Large values may make a page shorter than `limit`: continue after the last key until a page is
    empty.
    """
    after_parts = tuple(after) if after else None
    return await Keyspace(caller).find_all(tuple(prefix or ()), limit, after_parts)


@get_or_head("/keys/{key:path}", summary="Read a key", problems=(404,))
async def get_key(key: WholeKey, caller: NamedDependency[Caller]) -> KeyDocument:
    """A key with its value."""
    return await Keyspace(caller).get(key_parts(key))


@put(
    "/keys/{key:path}",
    summary="Write a key",
    problems=(409,),
    example={"value": {"seen": True}, "version": 0},
)
async def set_key(
    key: WholeKey, data: JSONBody[KeyBody], caller: NamedDependency[Caller]
) -> KeyDocument:
    """Set a value, or with `version` only if nobody else has changed it."""
    return await Keyspace(caller).set(key_parts(key), data.value, data.version)


@delete("/keys/{key:path}", status_code=200, summary="Delete a key", problems=(404,))
async def delete_key(key: WholeKey, caller: NamedDependency[Caller]) -> Ok:
    """Delete a key permanently."""
    await Keyspace(caller).delete(key_parts(key))
    return Ok()


@get("/watch", summary="Watch keys (SSE)", media_type="text/event-stream")
async def watch_keys(caller: NamedDependency[Caller], prefix: Prefix = None) -> Stream:
    """A stream of `set` for each key that exists or changes, and `delete` for each deleted one.

    At most 10,000 keys can be watched: 422 if there are more, and an `error` event before the
    stream ends if that happens later.
    """
    return stream_response(await Keyspace(caller).watch(tuple(prefix or ())))


router = Router(
    "/",
    route_handlers=[list_keys, get_key, set_key, delete_key, watch_keys],
    tags=["Keys"],
)
