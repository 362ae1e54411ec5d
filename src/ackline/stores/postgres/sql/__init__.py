"""The store's SQL statements by name: `statements("ackline")["take_jobs"]`."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import MappingProxyType

from ackline.stores.shared.sql_files import read_statements

_PARTS = re.compile(r"/\*(next_jobs|journal_moment)\*/")
"""Where one statement has another as a part."""

_FITTING = re.compile(r"(\w+) /\*within_bytes\*/")
_SCHEMA = re.compile(r"\backline(?=\.|;$)|(?<=SCHEMA )ackline\b", re.MULTILINE)


def in_schema(text: str, schema: str) -> str:
    """SQL that was written for the schema `ackline`, changed for another schema."""
    return _SCHEMA.sub(lambda _: f'"{schema}"', text)


@functools.lru_cache(maxsize=8)
def statements(schema: str) -> Mapping[str, str]:
    """All statements by name, for a schema."""
    found = read_statements(__package__)
    for name, text in found.items():
        found[name] = _PARTS.sub(lambda part: found[part[1]], text)
    found["take_jobs_within"] = _FITTING.sub(
        lambda jobs: f"({found['within_bytes'].replace('/*jobs*/', jobs[1])}) f", found["take_jobs"]
    )
    return MappingProxyType({name: in_schema(text, schema) for name, text in found.items()})
