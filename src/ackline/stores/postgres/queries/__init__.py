"""The store's SQL, one file for each act; `Statements("ackline")["pick"]` gives one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_SCHEMA = re.compile(r"\backline(?=\.|;$)|(?<=SCHEMA )ackline\b")


def in_schema(text: str, schema: str) -> str:
    """SQL that is written for the schema `ackline`, for another."""
    return _SCHEMA.sub(lambda _: f'"{schema}"', text)


def statements(schema: str) -> Mapping[str, str]:
    """All statements by name, for a schema."""
    found: dict[str, str] = {}
    for file in resources.files(__package__).iterdir():
        if file.name.endswith(".sql"):
            _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                if name in found:
                    raise ValueError(f"two statements are named {name}")
                bare = _COMMENT.sub("", text).strip().removesuffix(";")
                found[name] = in_schema(bare, schema)
    return found
