"""The store API: one route per store method, for clients that open the service as a store."""

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

from ackline.core.errors import AcklineError
from ackline.service.auth.caller import Caller
from ackline.service.auth.guard import OWN_RATE_LIMIT
from ackline.service.http.problems import Forbidden, NotFound, ProblemError, WrongMediaType
from ackline.service.http.sse import PING, sse_event, stream_response
from ackline.service.http.strict_json import BadBody, read_json
from ackline.service.routes.decorators import post
from ackline.service.store_api import (
    RATE_DEPENDS_ON_BODY,
    Arguments,
    ContinueAt,
    execute_within_rate,
    validate,
)
from ackline.service.store_api.arguments import MAX_LISTEN_QUEUES, MAX_RESULTS
from ackline.stores.contract import MAX_ANSWER_BYTES, Capabilities
from ackline.stores.wire import (
    CONTINUE_AFTER_HEADER,
    JSON,
    LISTEN,
    LISTENING,
    MSGPACK,
    NOTIFICATION,
    TENANT_HEADER,
    VERBS,
    Handshake,
    Verb,
)

SLOW_VERBS = frozenset({"page", "purge", "prune", "events", "read_keys", "leases", "workers"})
"""Methods that may read many jobs, events, keys or workers."""

AnyRequest = Request[Any, Any, Any]
VerbName = Annotated[str, PathParameter(description="The method's name.")]


@post("/handshake", status_code=200, summary="Open the service as a store")
async def handshake(request: AnyRequest, caller: NamedDependency[Caller]) -> Response[bytes]:
    """The tenant of these credentials, and the capabilities and limits of the service."""
    _require_tenant(request, caller)
    runtime = caller.runtime
    answer = Handshake(
        tenant=caller.tenant,
        capabilities=_over_http(runtime.store.capabilities),
        version=f"ackline {version('ackline')}",
        max_body=runtime.settings.max_body,
        max_batch=runtime.settings.max_batch,
        max_answer=MAX_RESULTS,
        max_listened_queues=MAX_LISTEN_QUEUES,
        max_answer_bytes=MAX_ANSWER_BYTES,
        ping_every=runtime.settings.ping_every,
    )
    encode = msgspec.json.encode if _media_type(request) == JSON else msgspec.msgpack.encode
    return Response(encode(answer), media_type=_media_type(request))


def _over_http(capabilities: Capabilities) -> Capabilities:
    """The store's capabilities, without those that need a direct connection."""
    return msgspec.structs.replace(
        capabilities, name="http", shared=True, one_machine=False, joins_transactions=False
    )


@post("/{verb:str}", status_code=200, summary="Call a method of the store", opt=OWN_RATE_LIMIT)
async def call_verb(
    verb: VerbName, request: AnyRequest, caller: NamedDependency[Caller]
) -> Response[bytes]:
    """Call a method of the store; the response has the format of the request."""
    if verb not in RATE_DEPENDS_ON_BODY:
        caller.runtime.limits.admit_request(caller.tenant)
    known = VERBS.get(verb)
    if known is None:
        raise NotFound(f"there is no method {verb!r}, only {', '.join(VERBS)}, listen")
    _require_tenant(request, caller)
    media_type, body = _media_type(request), await request.body()
    call = caller.run_slow if verb in SLOW_VERBS else caller.runtime.call
    answer, headers = await call(_answer, caller, known, media_type, body)
    return Response(answer, media_type=media_type, headers=headers)


@post(
    "/listen",
    status_code=200,
    summary="Get notifications of queues (SSE)",
    media_type="text/event-stream",
)
async def listen(request: AnyRequest, caller: NamedDependency[Caller]) -> Stream:
    """A stream: `listening` once it is subscribed, then `notification` for each change."""
    _require_tenant(request, caller)
    arguments = _read(LISTEN, _media_type(request), await request.body(), caller)
    arguments = validate(caller, LISTEN.name, arguments)
    caller.count_waiting_queues(len(arguments["queues"]))
    return stream_response(_notifications(caller, arguments))


def _answer(
    caller: Caller, verb: Verb, media_type: str, body: bytes
) -> tuple[bytes, Mapping[str, str]]:
    """The body and the headers of the response. Blocks."""
    arguments = _read(verb, media_type, body, caller)
    try:
        answer = execute_within_rate(caller, verb.name, validate(caller, verb.name, arguments))
    except ValueError as error:
        if isinstance(error, AcklineError):
            raise
        raise ProblemError(str(error)) from None  # not a cursor
    if isinstance(answer, ContinueAt):
        return verb.formats[media_type].encode([]), {CONTINUE_AFTER_HEADER: answer.cursor}
    return verb.formats[media_type].encode(answer), {}


def _read(verb: Verb, media_type: str, body: bytes, caller: Caller) -> Arguments:
    decoder = verb.formats[media_type].requests
    try:
        request = read_json(body, decoder) if media_type == JSON else decoder.decode(body)
    except msgspec.ValidationError as error:
        # A library error, raised by a struct's own check, is a problem of its own.
        if isinstance(error.__cause__, AcklineError):
            raise error.__cause__ from None
        raise BadBody(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"the body is not valid MessagePack: {error}") from None
    return verb.unpack(request, caller.tenant)


async def _notifications(caller: Caller, arguments: Arguments) -> AsyncIterator[bytes]:
    runtime = caller.runtime
    stream = runtime.streams.open(caller.principal.until)
    try:
        with ExitStack() as wakeups:
            for queue in arguments["queues"]:
                of_queue = runtime.wakeups.of_queue(queue, arguments["topic"], arguments["kinds"])
                wakeups.enter_context(wakeups.enter_context(of_queue).watching(stream.wake))
            yield sse_event(LISTENING)
            while not stream.ended:
                notified = await stream.wait(runtime.settings.ping_every)
                yield sse_event(NOTIFICATION) if notified else PING
    finally:
        runtime.streams.close(stream)


def _require_tenant(request: AnyRequest, caller: Caller) -> None:
    """Refuse a client that expects another tenant's queues than those of its credentials."""
    named = request.headers.get(TENANT_HEADER)
    if named is not None and unquote(named) != caller.tenant:
        raise Forbidden(f"your token is for tenant {caller.tenant!r}, not {unquote(named)!r}")


def _media_type(request: AnyRequest) -> str:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in (MSGPACK, JSON):
        sent = f"but it is {media_type!r}" if media_type else "but no content type was sent"
        raise WrongMediaType(f"the body must be {MSGPACK} or {JSON}, {sent}")
    return media_type


router = Router(
    "/store", route_handlers=[handshake, call_verb, listen], tags=["Store"], include_in_schema=False
)
