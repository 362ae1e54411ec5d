"""The options and columns of the format for Spark."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec
from tools.reference_pages.markdown import WRITTEN_BY, table

TITLES = {
    "JobsOptions": "Reading `jobs` or `dlq`: `spark.read`",
    "EventsOptions": "Reading `events`: `spark.read` and `spark.readStream`",
    "ClaimsOptions": "Reading `jobs` as a stream: `spark.readStream`",
    "JobsWriteOptions": "Writing `jobs`: `write` and `writeStream`",
    "OutcomesWriteOptions": "Writing `outcomes`: `write` and `writeStream`",
}


def spark_page() -> str:
    """Every option of the format, and every column."""
    options = importlib.import_module("ackline.spark.options")
    schemas = importlib.import_module("ackline.spark.schemas")
    parts = [
        WRITTEN_BY,
        "# The format `ackline` for Spark",
        "[Spark](../guides/spark.md) shows how to use it.",
        *(f"## {title}\n\n{_options(getattr(options, name))}" for name, title in TITLES.items()),
        f"## Columns\n\nVersion {schemas.SCHEMA_VERSION}.",
        f"### `jobs` and `dlq`\n\n{_columns(schemas.JOBS)}",
        f"### `jobs` as a stream\n\n{_columns(schemas.CLAIMS)}",
        f"### `events`\n\n{_columns(schemas.EVENTS)}",
    ]
    return "\n\n".join(parts) + "\n"


def _options(kind: Any) -> str:
    descriptions = importlib.import_module("ackline.spark.option_parsing").option_descriptions(kind)
    rows = [
        (f"`{field.encode_name}`", _default(field), descriptions[field.encode_name])
        for field in msgspec.structs.fields(kind)
    ]
    return table(("option", "default", ""), rows)


def _default(field: Any) -> str:
    if field.required:
        return "must be set"
    if field.default is None:
        return ""
    text = str(field.default).lower() if isinstance(field.default, bool) else f"{field.default}"
    return f"`{text}`"


def _columns(schema: Any) -> str:
    rows = [
        (f"`{field.name}`", field.dataType.simpleString(), "" if field.nullable else "never null")
        for field in schema.fields
    ]
    return table(("column", "type", ""), rows)
