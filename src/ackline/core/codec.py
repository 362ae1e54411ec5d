"""Serialization of payloads and results: JSON, msgpack, or anything with dumps and loads."""

from __future__ import annotations

import enum
import inspect
import math
from typing import Any, Protocol, cast, runtime_checkable

import msgspec

from ackline.core.errors import InvalidPayload, PayloadTooLarge

DEFAULT_MAX_PAYLOAD = 1024 * 1024


class Serde(Protocol):
    """Turns values into bytes and back.

    `name` is stored with each job that is not JSON, so never change it: a job is read by the serde
    whose name it was written under. `type` is what the reader declared, `Any` if nothing.
    """

    name: str

    def dumps(self, value: Any) -> bytes: ...

    def loads(self, data: bytes, type: Any = ...) -> Any: ...


class Json:
    """JSON by msgspec: the default. NaN and infinity are rejected: JSON cannot represent them."""

    name: str = "json"

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    def dumps(self, value: Any) -> bytes:
        data = self._encode(value)
        # msgspec writes NaN as null, or as a key "nan". Only text with these needs the slow check.
        # `find` is faster than `in`, which first tries to read its left operand as a number.
        find = data.find
        may_be_invalid = find(b"null") >= 0 or find(b'nan":') >= 0 or find(b'inf":') >= 0
        if may_be_invalid and (path := _find_not_finite(value)) is not None:
            raise ValueError(f"{path} is NaN or infinite, which JSON cannot represent")
        # The content of a `msgspec.Raw` was copied without a check.
        if isinstance(value, msgspec.Raw):
            msgspec.json.decode(data)
        else:
            _require_json(data)
        return data

    def loads(self, data: bytes, type: Any = Any) -> Any:
        decoder = self._decoders.get(type)
        if decoder is None:
            decoder = self._decoders[type] = msgspec.json.Decoder(type)
        return decoder.decode(data)


class Msgpack:
    """msgpack by msgspec: compact, and it keeps bytes."""

    name: str = "msgpack"

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder().encode

    def dumps(self, value: Any) -> bytes:
        return self._encode(value)

    def loads(self, data: bytes, type: Any = Any) -> Any:
        return msgspec.msgpack.decode(data, type=type)


@runtime_checkable
class SerdeLike(Protocol):
    """Any object or module with both functions, such as `cbor2`."""

    def dumps(self, value: Any, /) -> bytes: ...

    def loads(self, data: bytes, /) -> Any: ...


class CustomSerde:
    """Adapts a plain dumps/loads object to `Serde`."""

    def __init__(self, inner: SerdeLike, name: str | None = None) -> None:
        self._inner = inner
        self.name: str = name or _own_name(inner) or type(inner).__name__

    def dumps(self, value: Any) -> bytes:
        return self._inner.dumps(value)

    def loads(self, data: bytes, type: Any = Any) -> Any:
        value = self._inner.loads(data)
        return value if type is Any else msgspec.convert(value, type)


def _own_name(serde: object) -> str:
    """The name of a serde: its `name` or, for a module, its `__name__`."""
    names = (getattr(serde, attribute, "") for attribute in ("name", "__name__"))
    return next((name for name in names if name and isinstance(name, str)), "")


def _is_serde(value: object) -> bool:
    """Whether an object is a complete `Serde`: it has a name, and decodes into a type."""
    if not isinstance(value, SerdeLike) or not isinstance(getattr(value, "name", None), str):
        return False
    try:
        inspect.signature(value.loads).bind(b"", Any)
    except (TypeError, ValueError):
        return False
    return True


def serde_from(value: Serde | SerdeLike | str | None) -> Serde:
    """Return the serde that a user means: None or "json", "msgpack", a `Serde`, or dumps/loads."""
    if value is None or value == "json":
        return Json()
    if value == "msgpack":
        return Msgpack()
    if _is_serde(value):
        return cast(Serde, value)
    if isinstance(value, SerdeLike):
        return CustomSerde(value)
    raise InvalidPayload(f"{value!r} is not a serde: it needs dumps(value) and loads(data)")


def encode(what: str, value: Any, serde: Serde, limit: int) -> bytes:
    """Encode a payload or result; reject values that would not decode to the same value."""
    try:
        data = serde.dumps(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidPayload(f"the {what} cannot be written as {serde.name}: {error}") from error
    if not isinstance(data, bytes):
        raise InvalidPayload(
            f"serde {serde.name} returned {type(data).__name__} instead of bytes for the {what}"
        )
    if len(data) > limit:
        raise PayloadTooLarge(what, len(data), limit)
    return data


def decode(what: str, data: bytes, serde: Serde, type: Any) -> Any:
    """Decode a payload or result into the type that its reader declared."""
    try:
        return serde.loads(data, type)
    except Exception as error:
        raise InvalidPayload(f"the {what} cannot be read as {serde.name}: {error}") from error


def is_json(data: bytes) -> bool:
    """Whether bytes are JSON, checked without building its values."""
    try:
        _require_json(data)
    except ValueError:
        return False
    return True


def _require_json(data: bytes) -> None:
    try:
        _validate_json(data)
        if not data.isascii():
            data.decode()  # `_validate_json` does not check the bytes of strings
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(
            f"it produces invalid JSON, as a broken msgspec.Raw does: {error}"
        ) from error


_validate_json = msgspec.json.Decoder(msgspec.Raw).decode


def _find_not_finite(value: Any, path: str = "$") -> str | None:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    if isinstance(value, dict):
        if any(isinstance(key, float) and not math.isfinite(key) for key in value):
            return f"a key of {path}"
        items = [(f"{path}.{key}", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        items = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    elif isinstance(value, msgspec.Struct) or hasattr(value, "__dataclass_fields__"):
        names = getattr(value, "__struct_fields__", None) or value.__dataclass_fields__
        items = [(f"{path}.{name}", getattr(value, name)) for name in names]
    else:
        return None
    paths = (_find_not_finite(item, item_path) for item_path, item in items)
    return next((item_path for item_path in paths if item_path is not None), None)
