"""The store itself: the verbs that `ackline.open("http://…")` speaks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from importlib.metadata import version
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
from litestar import Request, Response, Router
from litestar.di import NamedDependency
from litestar.params import PathParameter
from litestar.response import Stream

from ackline.errors import AcklineError
from ackline.service.auth.caller import Caller
from ackline.service.auth.guard import PACED_BY_ITSELF
from ackline.service.handlers import post
from ackline.service.problems import Forbidden, NotFound, Refused, WrongMediaType
from ackline.service.store_access import (
    PACED_BY_BODY,
    Arguments,
    ReadOn,
    ask_within_rate,
    permit,
)
from ackline.service.store_access.sizes import MOST, MOST_NAMES
from ackline.service.streams import PING, event, stream_response
from ackline.service.strict_json import BadBody, read_json
from ackline.stores.base import ANSWER_BYTES, Capabilities
from ackline.stores.wire import (
    JSON,
    LISTEN,
    LISTENING,
    MSGPACK,
    NEWS,
    READ_ON_HEADER,
    TENANT_HEADER,
    VERBS,
    Verb,
    Welcome,
)

SLOW = frozenset({"page", "purge", "prune", "events", "read_keys", "leases", "workers"})
"""Verbs that may go through many jobs, events, keys or workers."""

AnyRequest = Request[Any, Any, Any]
VerbName = Annotated[str, PathParameter(description="The verb's name.")]


@post("/welcome", status_code=200, summary="Open the service as a store")
async def welcome(request: AnyRequest, caller: NamedDependency[Caller]) -> Response[bytes]:
    """Whose queues these credentials open, and what the store can do."""
    _require_tenant(request, caller)
    runtime = caller.runtime
    answer = Welcome(
        tenant=caller.tenant,
        capabilities=_over_http(runtime.store.capabilities),
        version=f"ackline {version('ackline')}",
        max_body=runtime.settings.max_body,
        max_batch=runtime.settings.max_batch,
        max_answer=MOST,
        max_names=MOST_NAMES,
        answer_bytes=ANSWER_BYTES,
        ping_every=runtime.settings.ping_every,
    )
    encode = msgspec.json.encode if _media_type(request) == JSON else msgspec.msgpack.encode
    return Response(encode(answer), media_type=_media_type(request))


def _over_http(kept: Capabilities) -> Capabilities:
    """What a store can do, except what needs a connection of one's own to it."""
    return msgspec.structs.replace(kept, name="http", shared=True, one_machine=False, joins=False)


@post("/{verb:str}", status_code=200, summary="Call a verb of the store", opt=PACED_BY_ITSELF)
async def call_verb(
    verb: VerbName, request: AnyRequest, caller: NamedDependency[Caller]
) -> Response[bytes]:
    """One verb: its arguments in, what the store answers out, in the format of the request."""
    if verb not in PACED_BY_BODY:
        caller.runtime.limits.admit_request(caller.tenant)
    known = VERBS.get(verb)
    if known is None:
        raise NotFound(f"a store has no verb {verb!r}. It has: {', '.join(VERBS)}, listen")
    _require_tenant(request, caller)
    media_type, body = _media_type(request), await request.body()
    call = caller.slowly if verb in SLOW else caller.runtime.call
    answer, headers = await call(_answer, caller, known, media_type, body)
    return Response(answer, media_type=media_type, headers=headers)


@post(
    "/listen",
    status_code=200,
    summary="Hear news of queues (SSE)",
    media_type="text/event-stream",
)
async def listen(request: AnyRequest, caller: NamedDependency[Caller]) -> Stream:
    """`listening` when nothing is missed any more, then `news` when there may be something."""
    _require_tenant(request, caller)
    arguments = _read(LISTEN, _media_type(request), await request.body(), caller)
    arguments = permit(caller, LISTEN.name, arguments)
    caller.will_wait_for(len(arguments["queues"]))
    return stream_response(_news(caller, arguments))


def _answer(
    caller: Caller, verb: Verb, media_type: str, body: bytes
) -> tuple[bytes, Mapping[str, str]]:
    """All that takes time, in a thread: the answer, and the headers that go with it."""
    arguments = _read(verb, media_type, body, caller)
    try:
        answer = ask_within_rate(caller, verb.name, permit(caller, verb.name, arguments))
    except ValueError as error:
        if isinstance(error, AcklineError):
            raise
        raise Refused(str(error)) from None  # not a cursor
    if isinstance(answer, ReadOn):
        return verb.formats[media_type].write([]), {READ_ON_HEADER: answer.cursor}
    return verb.formats[media_type].write(answer), {}


def _read(verb: Verb, media_type: str, body: bytes, caller: Caller) -> Arguments:
    calls = verb.formats[media_type].calls
    try:
        call = read_json(body, calls) if media_type == JSON else calls.decode(body)
    except msgspec.ValidationError as error:
        # An error of the library, raised by a struct's own check, has an answer of its own.
        if isinstance(error.__cause__, AcklineError):
            raise error.__cause__ from None
        raise BadBody(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"the body is not MessagePack: {error}") from None
    return verb.unpack(call, caller.tenant)


async def _news(caller: Caller, arguments: Arguments) -> AsyncIterator[bytes]:
    runtime = caller.runtime
    stream = runtime.streams.open(caller.principal.until)
    try:
        with ExitStack() as wakeups:
            for queue in arguments["queues"]:
                of_queue = runtime.wakeups.of_queue(queue, arguments["topic"], arguments["kinds"])
                wakeups.enter_context(wakeups.enter_context(of_queue).watching(stream.wake))
            yield event(LISTENING)
            while not stream.ended:
                news = await stream.pause(runtime.settings.ping_every)
                yield event(NEWS) if news else PING
    finally:
        runtime.streams.close(stream)


def _require_tenant(request: AnyRequest, caller: Caller) -> None:
    """Refuse a client that expects another tenant's queues: it would get its own instead."""
    named = request.headers.get(TENANT_HEADER)
    if named is not None and unquote(named) != caller.tenant:
        raise Forbidden(f"your token is for tenant {caller.tenant!r}, not for {unquote(named)!r}")


def _media_type(request: AnyRequest) -> str:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in (MSGPACK, JSON):
        sent = repr(media_type) if media_type else "none"
        raise WrongMediaType(f"the body must be {MSGPACK} or {JSON}; its content type is {sent}")
    return media_type


router = Router(
    "/store", route_handlers=[welcome, call_verb, listen], tags=["Store"], include_in_schema=False
)
