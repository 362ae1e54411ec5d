"""The columns of a DataFrame that describe jobs and outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    NumericType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
)

from ackline.core.errors import ConfigError
from ackline.spark.options import JobsWriteOptions

_TEXT = (StringType,)
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_SECONDS = (*_WHOLE, FloatType, DoubleType, DecimalType)

JOB_COLUMNS: Mapping[str, tuple[type[DataType], ...]] = {
    "id": (*_TEXT, *_WHOLE),
    "queue": _TEXT,
    "kind": _TEXT,
    "priority": _WHOLE,
    "delay": _SECONDS,
    "run_at": (TimestampType, *_SECONDS),
    "max_attempts": _WHOLE,
    "backoff": (ArrayType, *_SECONDS),
    "lease": _SECONDS,
    "timeout": _SECONDS,
    "result_ttl": _SECONDS,
    "keys_if_undelivered": (ArrayType,),
    "callback_url": _TEXT,
    "group": _TEXT,
    "headers": (MapType,),
    "trace": _TEXT,
}
"""Columns that describe a job, and their permitted types."""

ELEMENT_TYPES: Mapping[str, tuple[type[DataType], ...]] = {
    "backoff": _SECONDS,
    "keys_if_undelivered": (ArrayType,),
    "headers": _TEXT,
}
"""The types of the elements of lists and the values of maps."""

OUTCOME_COLUMNS: Mapping[str, tuple[type[DataType], ...]] = {
    "id": _TEXT,
    "token": _WHOLE,
    "queue": _TEXT,
    "outcome": _TEXT,
    "result": (StringType, BinaryType),
    "error": _TEXT,
    "delay": _SECONDS,
}
"""Columns of a row that settles a claimed job."""


PAYLOAD_TYPES = (
    *(StringType, BinaryType, BooleanType, NumericType, NullType),
    *(DateType, TimeType, TimestampType, TimestampNTZType, DayTimeIntervalType),
)
"""The types that a payload may have, alone and in lists, maps and structs."""


class WrongColumnType(ConfigError):
    """A column that describes a job has a type that it cannot have."""

    def __init__(self, column: str, kind: DataType, possible: str) -> None:
        self.column = column
        self.kind = kind
        self.problem = f"column {column!r} is {kind.simpleString()}, but must be {possible}"
        # Spark casts no text to a map or a list.
        text = isinstance(kind, StringType) and column in ELEMENT_TYPES
        how = "cast it, or read it with from_json" if text else "cast it"
        if text and column != "backoff":
            how = f"read it with from_json({column}, '{possible}')"
        super().__init__(
            f"{self.problem}: {how}, or give it another name if it is part of the payload"
        )


class MissingQueue(ConfigError):
    """Rows do not say which queue they are for."""

    def __init__(self) -> None:
        super().__init__("which queue? Set the option 'queue', or add a column of this name")


class ColumnRoles(msgspec.Struct, frozen=True):
    """The columns of a DataFrame by their use."""

    of_job: tuple[str, ...]
    """Those that describe the job."""
    payload: str | None
    """The one that is the payload."""
    fields: tuple[str, ...]
    """Those that together form the payload, if no single column is the payload."""


def classify_columns(schema: StructType, options: JobsWriteOptions) -> ColumnRoles:
    """Group a DataFrame's columns by use, or refuse it and say what to do."""
    types = {field.name: field.dataType for field in schema.fields}
    _require_spelling(types, (*JOB_COLUMNS, "payload"))
    _require_types(types, JOB_COLUMNS)
    _require_names(schema, "the rows")
    for name, kind in types.items():
        if name not in JOB_COLUMNS:
            _require_storable(kind, name)
    of_job = tuple(name for name in types if name in JOB_COLUMNS)
    others = tuple(name for name in types if name not in JOB_COLUMNS and name != "payload")
    if "payload" in types and others:
        raise ConfigError(
            f"there is a column 'payload', and beside it {_quoted(others)}, which no job has: drop "
            f"{_pronoun(others)}, or leave 'payload' out to make all other columns the payload"
        )
    if "payload" not in types and not others:
        raise ConfigError("there is no column for the payload: call one 'payload'")
    if options.id_from == "column" and "id" not in of_job:
        raise ConfigError(
            "jobs need ids that are the same each time the write is repeated: add a column 'id', "
            "or set idFrom=content to take a hash of the payload"
        )
    if options.id_from == "content" and "id" in of_job:
        raise ConfigError("there is a column 'id', and idFrom=content: drop one of them")
    if options.queue is None and "queue" not in of_job:
        raise MissingQueue
    return ColumnRoles(of_job, "payload" if "payload" in types else None, others)


def require_outcome_columns(schema: StructType, queue: str | None) -> None:
    """Refuse a DataFrame that lacks the job or its outcome."""
    types = {field.name: field.dataType for field in schema.fields}
    _require_spelling(types, OUTCOME_COLUMNS)
    _require_types(types, OUTCOME_COLUMNS)
    if others := [name for name in types if name not in OUTCOME_COLUMNS]:
        raise ConfigError(
            f"an outcome has no {_quoted(others)}: drop {_pronoun(others)}. It has "
            f"{', '.join(OUTCOME_COLUMNS)}"
        )
    missing = [name for name in ("id", "token", "outcome") if name not in types]
    if queue is None and "queue" not in types:
        missing.append("queue")
    if missing:
        raise ConfigError(
            f"an outcome lacks {_quoted(missing)}: take id, token and queue from the claimed job, "
            "and add 'outcome' (complete, fail, retry or dead)"
        )


def _require_spelling(names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse `ID` for `id`: Spark takes them for the same, but it would be part of the payload."""
    spellings = {name.lower(): name for name in known}
    for name in names:
        lower = name.lower()
        if lower in spellings and name != spellings[lower]:
            raise ConfigError(
                f"there is a column {name!r}: call it {spellings[lower]!r} if that is what it "
                "means, or give it another name if it is part of the payload"
            )


def _require_types(
    types: Mapping[str, DataType], known: Mapping[str, tuple[type[DataType], ...]]
) -> None:
    for name, kind in types.items():
        if name in known and not (isinstance(kind, known[name]) and _fits_within(name, kind)):
            raise WrongColumnType(name, kind, _possible(name, known[name]))


def _require_storable(kind: DataType, where: str) -> None:
    """Refuse types that JSON or Python cannot represent."""
    match kind:
        case ArrayType():
            _require_storable(kind.elementType, f"{where}[]")
        case MapType():
            _require_storable(kind.keyType, f"{where}.key")
            _require_storable(kind.valueType, f"{where}.value")
        case StructType():
            _require_names(kind, where)
            for field in kind.fields:
                _require_storable(field.dataType, f"{where}.{field.name}")
        case _:
            _require_value(kind, where)


def _require_value(kind: DataType, where: str) -> None:
    if not isinstance(kind, PAYLOAD_TYPES):
        how = "to_json makes text of it" if isinstance(kind, VariantType) else "cast it"
        raise ConfigError(f"{where} is {kind.simpleString()}, which no payload can hold: {how}")


def _require_names(schema: StructType, where: str) -> None:
    if twice := [name for name, times in Counter(schema.names).items() if times > 1]:
        raise ConfigError(f"{where} have several fields {twice[0]!r}: name each another way")


def _fits_within(name: str, kind: DataType) -> bool:
    match kind:
        case ArrayType():
            return isinstance(kind.elementType, ELEMENT_TYPES[name])
        case MapType():
            return isinstance(kind.keyType, StringType) and isinstance(
                kind.valueType, ELEMENT_TYPES[name]
            )
        case _:
            return True


def _possible(name: str, kinds: Sequence[type[DataType]]) -> str:
    """Types in words; all types of numbers count as one."""
    number = "a number" if DoubleType in kinds else "a whole number"
    words = (number if kind in _SECONDS else _words(name, kind) for kind in kinds)
    return " or ".join(dict.fromkeys(words))


def _words(name: str, kind: type[DataType]) -> str:
    """A type as Spark writes it."""
    if kind is MapType:
        return "map<string,string>"
    within = {"backoff": "double", "keys_if_undelivered": "array<string>"}
    return f"array<{within[name]}>" if kind is ArrayType else kind.typeName()


def _pronoun(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
