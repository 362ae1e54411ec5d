"""SQL statements by name, from files: one file for each act.

A line `-- name: lease` starts the statement of that name. If it marks
the order of a list with `/*after*/` and `/*asc*/`, there is a second statement, `…_newest`, that
reads the list from its end.
"""

from __future__ import annotations

import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_AFTER_MARKER, _ORDER_MARKER = "/*after*/", "/*asc*/"
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)


def read_statements(package: str) -> dict[str, str]:
    """All statements in the `.sql` files of a package, by name and without comments."""
    statements: dict[str, str] = {}
    for file in resources.files(package).iterdir():
        if file.name.endswith(".sql"):
            _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                if name in statements:
                    raise ValueError(f"two statements are named {name}")
                statements[name] = _COMMENT.sub("", text).strip().removesuffix(";")
    lists = [name for name, text in statements.items() if _ORDER_MARKER in text]
    return statements | {
        statement_name(name, newest_first=True): _reversed(statements[name]) for name in lists
    }


def statement_name(name: str, newest_first: bool) -> str:
    """The name of the statement for this order."""
    return f"{name}_newest" if newest_first else name


def _reversed(statement: str) -> str:
    return statement.replace(f"{_AFTER_MARKER} >", "<").replace(_ORDER_MARKER, "DESC")
