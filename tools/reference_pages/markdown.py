"""Pieces of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

WRITTEN_BY = "<!-- Written by tools/reference. Change the code, then run it again. -->"


def table(head: Iterable[str], rows: Iterable[Iterable[str]], right: int = 0) -> str:
    """A table in Markdown; the last `right` columns hold numbers."""
    head = list(head)
    rules = ["---"] * (len(head) - right) + ["---:"] * right
    lines = [head, rules, *rows]
    return "\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def fill(text: str, marker: str, content: str) -> str:
    """Put content between `<!-- marker -->` and `<!-- /marker -->`."""
    pattern = re.compile(rf"(<!-- {marker} -->\n).*?(<!-- /{marker} -->)", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise SystemExit(f"there must be one <!-- {marker} --> … <!-- /{marker} -->")
    return pattern.sub(lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text)
