"""Reads the pages of the documentation.

A page is run from top to bottom, in one namespace and one directory:

    ```python               runs; one that begins with `# name.py` is also written to that file
    <!-- run … -->          code that runs here but is not shown
    <!-- prints -->         the text block below is what the code above has printed
    ```console              each `$ ackline …` runs and must end with 0; `> file` is followed
    <!-- exit 1 -->         … or with this code, for the console block below
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"^<!-- (?P<hidden>run)\n(?P<code>.*?)^-->$"
    r"|^<!-- (?P<mark>prints|exit \d+) -->$"
    r"|^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A code block or a marker of a page."""

    language: str
    text: str
    line: int
    mark: str = ""


def all_pages() -> list[Path]:
    """Every Markdown page of the project."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted(DOCS.rglob("*.md"))]


def written_pages() -> list[Path]:
    """The pages written by hand."""
    return [page for page in all_pages() if page.parent.name not in ("reference", "figures")]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page in order, with hidden code."""
    text, blocks, mark = page.read_text(), list[Block](), ""
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 2
        if found["hidden"]:
            blocks.append(Block("python", found["code"], line, "hidden"))
        elif found["mark"]:
            mark = found["mark"]
        else:
            blocks.append(Block(found["language"], found["text"], line, mark))
            mark = ""
    return blocks


class Command(NamedTuple):
    """An `ackline …` command, and the file to which its output is redirected."""

    arguments: list[str]
    into: str | None = None


def command_lines(block: Block) -> list[Command]:
    """The `ackline …` commands of a console block, without pipes."""
    lines = re.sub(r"\\\n\s*", " ", block.text).splitlines()
    typed = [line[2:] for line in lines if line.startswith("$ ")]
    found = []
    for line in typed:
        words = shlex.split(line, comments=True)
        while words and "=" in words[0]:
            words = words[1:]
        if words[:1] == ["ackline"]:
            end = next((i for i, word in enumerate(words) if word in ("|", ">", "<", "&")), None)
            into = words[end + 1] if end and words[end] == ">" else None
            found.append(Command(words[1:end], into))
    return found


def inline_commands(page: Path) -> list[list[str]]:
    """The commands in running text, as `ackline …`."""
    found = re.findall(r"`ackline ([a-z][^`\n]*)`", page.read_text())
    return [shlex.split(text) for text in found]
