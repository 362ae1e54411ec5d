"""SQL from files: one for each act, its statements under their names.

A line `-- name: lease` begins the statement of that name.
"""

from __future__ import annotations

import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)


def read_statements(package: str) -> dict[str, str]:
    """All statements in the `.sql` files of a package, by name and without their comments."""
    found: dict[str, str] = {}
    for file in resources.files(package).iterdir():
        if file.name.endswith(".sql"):
            _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                if name in found:
                    raise ValueError(f"two statements are named {name}")
                found[name] = _COMMENT.sub("", text).strip().removesuffix(";")
    return found
