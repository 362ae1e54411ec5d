"""The fields of a record, with the notes on them in its source."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import textwrap
from typing import Any

import msgspec
from tools.reference_pages.markdown import table


def fields_table(kind: type[msgspec.Struct]) -> str:
    """A row for each field."""
    notes = attribute_notes(kind)
    rows = [
        (f"`{field.name}`", f"`{_type_of(kind, field.name)}`", default_of(field), notes[field.name])
        for field in msgspec.structs.fields(kind)
    ]
    return table(("field", "type", "default", ""), rows) if rows else ""


def _type_of(kind: type, field: str) -> str:
    written = next(vars(k)["__annotations__"][field] for k in kind.__mro__ if _annotates(k, field))
    return written if isinstance(written, str) else inspect.formatannotation(written)


def _annotates(kind: type, field: str) -> bool:
    return field in vars(kind).get("__annotations__", {})


def default_of(field: msgspec.structs.FieldInfo) -> str:
    """The default of a field, as text."""
    if field.default is not msgspec.NODEFAULT:
        return f"`{_value(field.default)}`"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{field.default_factory()!r}`"
    return "required"


def _value(value: Any) -> str:
    if isinstance(value, frozenset):
        return "all"
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}()"
    return value.value if isinstance(value, enum.Enum) else repr(value)


@functools.cache
def attribute_notes(kind: type) -> dict[str, str]:
    """The strings below a class's attributes in its source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    notes = dict.fromkeys(getattr(kind, "__struct_fields__", ()), "")
    for above, below in zip(body.body, body.body[1:], strict=False):
        match above, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(note))),
            ):
                notes[name] = " ".join(note.split())
            case _:
                pass
    return notes
