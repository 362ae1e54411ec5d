"""Link the file of a script and the shared files into one text.

A server creates the functions of a script again at every call, and the more functions, the longer
that takes: for a script that handles one job it would be most of its time. So a script only gets
the functions that it uses, and constants are inlined. A function marked with the comment
`on_demand` is called at most once by a script, and often not at all: what only such functions need
is created inside each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_ON_DEMAND = re.compile(r"^-- on_demand\n(?=local function (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)
_BLOCK = re.compile(r"^(?=[^\s})e]|e(?!nd\b|lse))", re.MULTILINE)
_FUNCTION = re.compile(r"local function (\w+)")
_VALUES = re.compile(r"local ([\w, ]+?) = (.*)", re.DOTALL)
_CONSTANT = re.compile(r"[A-Z][A-Z_]*")
_LITERAL = re.compile(r"-?\d[\d *]*|'[^']*'")
_WORD = re.compile(r"'[^'\n]*'|(?<![.:])\b[A-Za-z_]\w*")


class Block:
    """A top-level statement, with the names that it defines and the names that it uses."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = _names_of(text)
        self.uses = set(_WORD.findall(text)).difference(self.names)
        self.function = self.names[0] if _FUNCTION.match(text) else None

    @property
    def constants(self) -> dict[str, str]:
        """Names and values, if all it does is name literals."""
        match = _VALUES.match(self.text)
        values = [value.strip() for value in match[2].split(",")] if match else []
        if len(values) != len(self.names) or not all(map(_LITERAL.fullmatch, values)):
            return {}
        if not all(map(_CONSTANT.fullmatch, self.names)):
            return {}
        return {
            name: value if value.isalnum() or value.startswith("'") else f"({value})"
            for name, value in zip(self.names, values, strict=True)
        }


def link_script(shared: Iterable[str], own: str) -> str:
    """Link the shared files, in this order, and a script's own file."""
    common = "".join(shared)
    blocks, run = _split(common), _split(own)
    constants: dict[str, str] = {}
    for block in [*blocks, *run]:
        constants |= block.constants
    on_demand = set(_ON_DEMAND.findall(common + own))
    return Linker(_inlined(blocks, constants), _inlined(run, constants), on_demand).text()


def _split(text: str) -> list[Block]:
    return [Block(piece) for piece in _BLOCK.split(_COMMENT.sub("", text)) if piece.strip()]


def _names_of(text: str) -> list[str]:
    if match := _FUNCTION.match(text):
        return [match[1]]
    if match := _VALUES.match(text):
        return [name.strip() for name in match[1].split(",")]
    return []


def _inlined(blocks: Sequence[Block], constants: Mapping[str, str]) -> list[Block]:
    """The blocks, with constants replaced by their values."""
    return [
        Block(_WORD.sub(lambda match: constants.get(match[0], match[0]), block.text))
        for block in blocks
        if not block.constants
    ]


class Linker:
    """Puts the blocks of one script in the right places."""

    def __init__(self, shared: Sequence[Block], own: Sequence[Block], on_demand: set[str]) -> None:
        self._blocks = [*shared, *own]
        self._functions = {block.function: block for block in self._blocks if block.function}
        self._on_demand = on_demand
        # Blocks without a name always run; named values are computed if something needs them.
        self._run = [block for block in own if not block.function]
        self._run += [block for block in shared if not block.names]
        while values := self._needed_values():
            self._run += values

    def _needed_values(self) -> list[Block]:
        all_blocks = [*self._run, *self._reached(self._run, into_on_demand=True)]
        used = set().union(*(block.uses for block in all_blocks))
        return [
            block
            for block in self._blocks
            if not block.function and block not in self._run and not used.isdisjoint(block.names)
        ]

    def text(self) -> str:
        """The linked script."""
        made = self._reached(self._run)
        scope = frozenset(block.function for block in made)
        return "".join(
            self._function_text(block, scope) if block in made else block.text
            for block in self._blocks
            if block in made or block in self._run
        )

    def _function_text(self, block: Block, scope: frozenset[str | None]) -> str:
        """The text of a function; one on demand includes what it needs but has not in scope."""
        if block.function not in self._on_demand:
            return block.text
        inner = [needed for needed in self._reached([block]) if needed.function not in scope]
        scope |= {needed.function for needed in inner}
        head, line, body = block.text.partition("\n")
        return head + line + "".join(self._function_text(needed, scope) for needed in inner) + body

    def _reached(self, start: Sequence[Block], *, into_on_demand: bool = False) -> list[Block]:
        """The functions that blocks use, directly or not, in order."""
        reached: set[str] = set()
        pending = [name for block in start for name in block.uses]
        while pending:
            name = pending.pop()
            if name in self._functions and name not in reached:
                reached.add(name)
                if into_on_demand or name not in self._on_demand:
                    pending += self._functions[name].uses
        return [block for block in self._blocks if block.function in reached]
