"""Bodies of requests: JSON read strictly, into structs, with errors that name the place."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Generator
from typing import Any, NoReturn

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
from ackline.service.depth import TooDeep, require_shallow
from ackline.service.problems import Refused, TooLarge, WrongMediaType


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of all bodies: what it does not have is refused by name."""


class BadBody(Refused):
    """A body that is not what this route reads."""

    type = "bad-body"


class ClientLeft(Refused):
    """A client that went away in the middle of its request; nobody reads this answer."""

    type = "client-left"


class PatientRequest(Request[Any, Any, Any]):
    """A request whose client may leave before all of it has come, which is nobody's fault."""

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes."""
        try:
            async for piece in super().stream():
                yield piece
        except RequestEntityTooLarge:
            most = self.route_handler.resolve_request_max_body_size()
            raise TooLarge(f"a body has at most {most:,} bytes here: send less at once") from None
        except InternalServerException as error:
            raise ClientLeft("the client left before its request was whole") from error


def read_json(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Read a body: no duplicate names, no NaN, no broken UTF-8, and the types as declared."""
    try:
        text = body.decode()
        require_shallow(body)
        _reread(text)
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise BadBody(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise TooDeep from None  # of a stack that has little room left
    except msgspec.ValidationError as error:
        # An error of the library, raised where a struct checked itself, has its own answer.
        if isinstance(error.__cause__, InvalidJob):
            raise error.__cause__ from None
        _refuse(str(error))
    except (msgspec.DecodeError, ValueError) as error:
        raise BadBody(f"the body is not JSON: {error}") from None


def _refuse(message: str) -> NoReturn:
    said, _, place = message.partition(" - at `")
    at = place.rstrip("`") or "$"
    raise BadBody(f"{said} at {at}", at=at)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadBody(f"the name {twice!r} stands twice in one object: which one counts?", at=twice)
    return found


def _not_a_number(word: str) -> NoReturn:
    raise BadBody(f"{word} is no number that JSON has")


_reread = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_not_a_number).decode
"""msgspec takes the last of two equal names, so the standard library looks as well."""

_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)


def is_json(media_type: str) -> bool:
    """Whether a content type says JSON."""
    return _JSON.fullmatch(media_type) is not None


class StrictBody(AbstractDTO[Any]):
    """Has Litestar read bodies by `read_json`, straight into their struct."""

    decoder: msgspec.json.Decoder[Any]

    def decode_bytes(self, value: bytes) -> Any:
        media_type = self.asgi_connection.headers.get("content-type", "").partition(";")[0].strip()
        if not is_json(media_type):
            said = repr(media_type) if media_type else "none"
            raise WrongMediaType(f"the body must be application/json; its content type is {said}")
        return read_json(value, self.decoder)

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
        decoder = msgspec.json.Decoder(body)
        return type(f"Strict{body.__name__}", (StrictBody,), {"decoder": decoder})
