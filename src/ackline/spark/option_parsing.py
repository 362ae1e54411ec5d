"""Parses the options of a query once, when it is planned, so that errors come before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ackline.core.errors import ConfigError
from ackline.spark.option_text import suggest_or_list, suggest_similar
from ackline.spark.option_values import invalid_value_message
from ackline.spark.options import OPTIONS_BY_USE, CommonOptions

SET_BY_SPARK = frozenset({"path", "checkpointlocation"})
"""Options that Spark adds by itself: the arguments of `load` and `start`."""

UNSUPPORTED_OPTIONS = {
    "pushdown": "Spark keeps what one filter leaves for every later use of the DataFrame, so rows "
    "would be missing. Set queue and kinds; states, createdAfter and createdBefore of jobs; or "
    "acts, happenedAfter and happenedBefore of events",
}
"""Options that cannot be offered, by their lower-case names, and what to do instead."""


def table_option(options: Mapping[str, str]) -> str:
    """The table: from the option, or from the argument of `load`."""
    named = options.get("table") or options.get("path")
    if not named:
        raise ConfigError(
            'no table: set .option("table", "jobs"); there are jobs, dlq, events and outcomes'
        )
    return named


def parse_options(role: str, options: Mapping[str, str]) -> CommonOptions:
    """The options of one use of the format."""
    table = table_option(options)
    kind = OPTIONS_BY_USE[role].get(table)
    if kind is None:
        raise ConfigError(
            f"{role} has no table {table!r}: {suggest_or_list(table, OPTIONS_BY_USE[role])}"
        )
    names = {name.lower(): name for name in kind.__struct_encode_fields__}
    given: dict[str, Any] = {"table": table}
    for name, value in options.items():
        if name.lower() in names:
            given[names[name.lower()]] = value
        elif name.lower() not in SET_BY_SPARK:
            raise ConfigError(_unknown_option_message(role, table, name, kind))
    return _convert(given, kind)


def _convert(given: dict[str, Any], kind: type[CommonOptions]) -> CommonOptions:
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, ValueError):
            raise ConfigError(str(error.__cause__)) from None
        message = str(error)
        for name in kind.__struct_encode_fields__:
            if f"required field `{name}`" in message:
                meaning = option_descriptions(kind)[name]
                raise ConfigError(f"the option {name!r} is missing: {meaning}") from None
            if message.endswith(f"`$.{name}`"):
                problem = invalid_value_message(kind, name, given[name])
                raise ConfigError(f"option {name}={given[name]!r}: {problem}") from None
        raise ConfigError(message) from None


def _unknown_option_message(role: str, table: str, name: str, kind: type[CommonOptions]) -> str:
    known = list(kind.__struct_encode_fields__)
    if name.lower() in UNSUPPORTED_OPTIONS:
        return f"there is no option {name!r}: {UNSUPPORTED_OPTIONS[name.lower()]}"
    if elsewhere := _valid_elsewhere(role, table, name):
        return f"{role} of {table} has no option {name!r}: {elsewhere}"
    hint = suggest_similar(name, known) or f"it has {', '.join(known)}"
    return f"{role} of {table} has no option {name!r}: {hint}"


def _valid_elsewhere(role: str, table: str, name: str) -> str | None:
    """Which other uses have this option, those of the same table first."""
    uses = {
        f"{other_role} of {other_table}": option
        for other_role, kinds in OPTIONS_BY_USE.items()
        for other_table, kind in kinds.items()
        for option in kind.__struct_encode_fields__
        if option.lower() == name.lower() and (other_role, other_table) != (role, table)
    }
    if not uses:
        return None
    own_first = sorted(uses, key=lambda use: not use.endswith(f" of {table}"))
    return f"{next(iter(uses.values()))!r} is for {', '.join(own_first)}"


def option_descriptions(kind: type[CommonOptions]) -> dict[str, str]:
    """The description of each option, by its name."""
    schema = msgspec.json.schema(kind)
    definition = schema["$defs"][kind.__name__]
    return {
        name: field.get("description") or _nested_description(field)
        for name, field in definition["properties"].items()
    }


def _nested_description(field: Mapping[str, Any]) -> str:
    return next((one["description"] for one in field.get("anyOf", ()) if "description" in one), "")
