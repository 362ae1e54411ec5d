"""The store's SQL, one file for each act; `sql("lease")` gives the statement of that name."""

from __future__ import annotations

import functools
import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)


@functools.cache
def sql(name: str) -> str:
    """One statement, without its comments."""
    return statements()[name]


@functools.cache
def statements() -> dict[str, str]:
    """All statements by name."""
    found: dict[str, str] = {}
    for file in resources.files(__package__).iterdir():
        if file.name.endswith(".sql"):
            _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                if name in found:
                    raise ValueError(f"two statements are named {name}")
                found[name] = _COMMENT.sub("", text).strip().removesuffix(";")
    return found
