"""Instants in UTC, so that a payload does not depend on the time zone of a Spark session."""

from __future__ import annotations

from typing import Any

import pyarrow


def timestamps_to_utc(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """The same instants in UTC, within lists, maps and structs too.

    Spark labels them with the session's time zone, which would become a part of the payload's text,
    and so of an id that is a hash of it.
    """
    fields = [field.with_type(_type_in_utc(field.type)) for field in batch.schema]
    schema = pyarrow.schema(fields)
    return batch if schema.equals(batch.schema) else batch.cast(schema)


def _type_in_utc(kind: pyarrow.DataType) -> pyarrow.DataType:
    if pyarrow.types.is_timestamp(kind):
        return pyarrow.timestamp(kind.unit, "UTC") if kind.tz else kind
    if pyarrow.types.is_map(kind):
        return pyarrow.map_(_field_in_utc(kind.key_field), _field_in_utc(kind.item_field))
    if pyarrow.types.is_struct(kind):
        return pyarrow.struct([_field_in_utc(field) for field in kind])
    if pyarrow.types.is_list(kind):
        return pyarrow.list_(_field_in_utc(kind.value_field))
    if pyarrow.types.is_large_list(kind):
        return pyarrow.large_list(_field_in_utc(kind.value_field))
    return kind


def _field_in_utc(field: pyarrow.Field[Any]) -> pyarrow.Field[Any]:
    return field.with_type(_type_in_utc(field.type))
