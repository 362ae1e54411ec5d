"""Keys: what undeliverable messages left behind, and what clients keep beside it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter, QueryParameter
from litestar.response import Stream

from ackline.service.auth.caller import Caller
from ackline.service.http.paths import key_parts
from ackline.service.http.request_body import Body
from ackline.service.http.sse import stream_response
from ackline.service.keyspace.documents import KeyDocument
from ackline.service.keyspace.keyspace import Keyspace
from ackline.service.routes.decorators import delete, get, get_or_head, put
from ackline.service.routes.simple.bodies import Ok

Prefix = Annotated[
    list[str] | None,
    QueryParameter(description="The first parts of the keys; give it once for each part."),
]
After = Annotated[
    list[str] | None,
    QueryParameter(description="Only keys behind this one: its parts, one parameter for each."),
]
WholeKey = Annotated[
    str, PathParameter(description="The parts of the key, one segment each, percent-encoded.")
]


class KeyBody(Body):
    """A value; with a version, only if the key still has it (0: only if there is none)."""

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

    Of large ones, fewer than `limit` come at once: read on behind the last one until none come.
    """
    behind = tuple(after) if after else None
    return await Keyspace(caller).find_all(tuple(prefix or ()), limit, behind)


@get_or_head("/keys/{key:path}", summary="Read a key", problems=(404,))
async def get_key(key: WholeKey, caller: NamedDependency[Caller]) -> KeyDocument:
    """One key with its value."""
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
    """Set a value, whatever it was, or only if nobody else changed it."""
    return await Keyspace(caller).set(key_parts(key), data.value, data.version)


@delete("/keys/{key:path}", status_code=200, summary="Delete a key", problems=(404,))
async def delete_key(key: WholeKey, caller: NamedDependency[Caller]) -> Ok:
    """Gone for good."""
    await Keyspace(caller).delete(key_parts(key))
    return Ok()


@get("/watch", summary="Watch keys (SSE)", media_type="text/event-stream")
async def watch_keys(caller: NamedDependency[Caller], prefix: Prefix = None) -> Stream:
    """A stream of `set` for each key that is there or changes, and `delete` for each that goes.

    At most 10,000 keys can be watched at once: 422 if there are more, and `error` before the
    stream ends if there come to be more.
    """
    return stream_response(await Keyspace(caller).watch(tuple(prefix or ())))


router = Router(
    "/",
    route_handlers=[list_keys, get_key, set_key, delete_key, watch_keys],
    tags=["Keys"],
)
