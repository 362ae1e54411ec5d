"""Describes the permitted values of an option."""

from __future__ import annotations

from msgspec import inspect

from ackline.spark.option_text import suggest_similar
from ackline.spark.options import CommonOptions


def invalid_value_message(kind: type[CommonOptions], name: str, value: str) -> str:
    """What the value of an option must be, with a similar permitted one."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    expected = next(_unwrap(field.type) for field in info.fields if field.encode_name == name)
    problem = f"it must be {_describe_type(expected)}"
    suggestion = suggest_similar(value, _choices(expected))
    return f"{problem}; {suggestion}" if suggestion else problem


def _unwrap(kind: inspect.Type) -> inspect.Type:
    """A type without its description, and without the None of an option that may be left out."""
    if isinstance(kind, inspect.Metadata):
        return _unwrap(kind.type)
    if isinstance(kind, inspect.UnionType):
        return next(_unwrap(one) for one in kind.types if not isinstance(one, inspect.NoneType))
    return kind


def _describe_type(kind: inspect.Type) -> str:
    match kind:
        case inspect.LiteralType():
            return " or ".join(map(repr, _choices(kind)))
        case inspect.IntType():
            return f"a whole number{_describe_range(kind)}"
        case inspect.FloatType():
            return f"a number{_describe_range(kind)}"
        case inspect.BoolType():
            return "true or false"
        case _:
            return "text"


def _choices(kind: inspect.Type) -> list[str]:
    return [str(one) for one in kind.values] if isinstance(kind, inspect.LiteralType) else []


def _describe_range(kind: inspect.IntType | inspect.FloatType) -> str:
    """The permitted range of a number.

    >>> _describe_range(inspect.IntType(ge=1, le=10)), _describe_range(inspect.FloatType(gt=0))
    (' from 1 to 10', ' above 0')
    """
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge:,} to {kind.le:,}"
    if kind.gt is not None:
        return f" above {kind.gt:,}"
    return f" of at least {kind.ge:,}" if kind.ge is not None else ""
