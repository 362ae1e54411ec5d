"""Bodies of requests: JSON read strictly, into structs, with errors that name the place."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Generator
from typing import Any, ClassVar, NoReturn

import msgspec
from litestar import Request
from litestar._openapi.schema_generation import SchemaCreator
from litestar.dto import AbstractDTO
from litestar.exceptions import InternalServerException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.openapi.spec import Reference, Schema
from litestar.plugins import SerializationPlugin
from litestar.typing import FieldDefinition

from ackline.errors import InvalidJob
from ackline.service.body_memory import body_of
from ackline.service.collector import collector_paused
from ackline.service.depth import TooDeep, require_shallow
from ackline.service.json_text import BadBody, look_through
from ackline.service.problems import Refused, TooLarge, WrongMediaType

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


class ClientLeft(Refused):
    """A client that went away in the middle of its request; nobody reads this answer."""

    type = "client-left"


class PatientRequest(Request[Any, Any, Any]):
    """A request whose client may leave before it is complete, which is not an error."""

    ahead: Any = msgspec.UNSET
    """A large body that was already read into its struct."""

    async def body(self) -> bytes:
        """The body; a large one is also read into its struct, in a thread."""
        received = body_of(self.scope)
        if received.whole is None:
            received.whole = b"".join([piece async for piece in self.stream()])
        body = received.whole
        if len(body) > LARGE and self.ahead is msgspec.UNSET:
            reader = self.route_handler.resolve_data_dto()
            if reader is not None and issubclass(reader, StrictBody):
                self.ahead = await asyncio.to_thread(_read_large, reader(self), body)
        return body

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


def _read_large(reader: StrictBody, body: bytes) -> Any:
    with collector_paused:
        return reader.read(body)


def read_json(
    body: bytes, decoder: msgspec.json.Decoder[Any], most_members: int | None = None
) -> Any:
    """Read a body: no duplicate names, no NaN, no broken UTF-8, and the types as declared."""
    try:
        body.decode()
        require_shallow(body)
        seen = look_through(body)
        if most_members is not None and seen.members > most_members:
            raise TooLarge(f"{seen.members:,} objects at once: send several requests")
        read = decoder.decode(body)
        for number in seen.numbers:
            _require_readable(number)
        return read
    except UnicodeDecodeError as error:
        raise BadBody(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise TooDeep from None  # the stack had little room left
    except msgspec.ValidationError as error:
        # An error of the library, raised by a struct's own check, has an answer of its own.
        if isinstance(error.__cause__, InvalidJob):
            raise error.__cause__ from None
        _refuse(str(error))
    except (msgspec.DecodeError, ValueError) as error:
        raise BadBody(f"the body is not JSON: {error}") from None


def _require_readable(number: bytes) -> None:
    """Refuse a number out of range: a payload is stored as it came, so nothing else reads it."""
    try:
        msgspec.json.decode(number)
    except (msgspec.DecodeError, ValueError):
        raise BadBody(f"the number {number[:20].decode()}… is out of range") from None


def _refuse(message: str) -> NoReturn:
    reason, _, place = message.partition(" - at `")
    at = place.rstrip("`") or "$"
    raise BadBody(f"{reason} at {at}", at=at)


_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)


def is_json(media_type: str) -> bool:
    """Whether a content type says JSON."""
    return _JSON.fullmatch(media_type) is not None


class StrictBody(AbstractDTO[Any]):
    """Makes Litestar read bodies with `read_json`, straight into their struct."""

    decoder: msgspec.json.Decoder[Any]
    most_members: ClassVar[int | None]

    def decode_bytes(self, value: bytes) -> Any:
        ahead = getattr(self.asgi_connection, "ahead", msgspec.UNSET)
        return self.read(value) if ahead is msgspec.UNSET else ahead

    def read(self, value: bytes) -> Any:
        """Read a body that says that it is JSON."""
        media_type = self.asgi_connection.headers.get("content-type", "").partition(";")[0].strip()
        if not is_json(media_type):
            sent = repr(media_type) if media_type else "none"
            raise WrongMediaType(f"the body must be application/json; its content type is {sent}")
        return read_json(value, self.decoder, self.most_members)

    @classmethod
    def create_for_field_definition(cls, *_args: Any, **_options: Any) -> None: ...

    @classmethod
    def create_openapi_schema(
        cls, field_definition: FieldDefinition, handler_id: str, schema_creator: SchemaCreator
    ) -> Reference | Schema:
        del handler_id
        return schema_creator.for_field_definition(field_definition)

    @classmethod
    def generate_field_definitions(cls, model_type: type[Any]) -> Generator[Any, None, None]:
        raise NotImplementedError(model_type)

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
        raise NotImplementedError(field_definition)


class StrictBodies(SerializationPlugin):
    """Gives each route whose `data` is a `Body` its strict reader."""

    def supports_type(self, field_definition: FieldDefinition) -> bool:
        return field_definition.is_subclass_of(Body)

    def create_dto_for_type(self, field_definition: FieldDefinition) -> type[AbstractDTO[Any]]:
        body = field_definition.annotation
        reads = {
            "decoder": msgspec.json.Decoder(body),
            "most_members": MOST_MEMBERS if issubclass(body, ManyBody) else None,
        }
        return type(f"Strict{body.__name__}", (StrictBody,), reads)
