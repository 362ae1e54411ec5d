"""Makes one script of a verb's file and the shared ones.

A server creates the functions of a script anew at every call, and each takes longer the more of
them there are: for a verb on one job that would be most of its time. So a script gets only the
functions that it uses, and constants are inlined. A gate is a function with the word `gate` above
it, which a call enters at most once and often not at all: functions that are needed only behind
gates are created inside of each of these gates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_BRANCH = re.compile(r"^-- gate\n(?=local function (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)
_BLOCK = re.compile(r"^(?=[^\s})e]|e(?!nd\b|lse))", re.MULTILINE)
_FUNCTION = re.compile(r"local function (\w+)")
_VALUES = re.compile(r"local ([\w, ]+?) = (.*)", re.DOTALL)
_CONSTANT = re.compile(r"[A-Z][A-Z_]*")
_LITERAL = re.compile(r"-?\d[\d *]*|'[^']*'")
_WORD = re.compile(r"'[^'\n]*'|(?<![.:])\b[A-Za-z_]\w*")


class Block:
    """A statement at the outermost level: the names that it defines, and those that it uses."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = _names_of(text)
        self.uses = set(_WORD.findall(text)).difference(self.names)
        self.function = self.names[0] if _FUNCTION.match(text) else None

    @property
    def constants(self) -> dict[str, str]:
        """Its names and values if it only gives names to literals, else nothing."""
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
    """One script of the shared texts, in this order, and the verb's own."""
    common = "".join(shared)
    blocks, run = _split(common), _split(own)
    constants: dict[str, str] = {}
    for block in [*blocks, *run]:
        constants |= block.constants
    gates = set(_BRANCH.findall(common + own))
    return Linker(_inlined(blocks, constants), _inlined(run, constants), gates).text()


def _split(text: str) -> list[Block]:
    return [Block(piece) for piece in _BLOCK.split(_COMMENT.sub("", text)) if piece.strip()]


def _names_of(text: str) -> list[str]:
    if match := _FUNCTION.match(text):
        return [match[1]]
    if match := _VALUES.match(text):
        return [name.strip() for name in match[1].split(",")]
    return []


def _inlined(blocks: Sequence[Block], constants: Mapping[str, str]) -> list[Block]:
    """The blocks with constants in place of their names."""
    return [
        Block(_WORD.sub(lambda match: constants.get(match[0], match[0]), block.text))
        for block in blocks
        if not block.constants
    ]


class Linker:
    """Puts the blocks of one script where they belong."""

    def __init__(self, shared: Sequence[Block], own: Sequence[Block], gates: set[str]) -> None:
        self._blocks = [*shared, *own]
        self._functions = {block.function: block for block in self._blocks if block.function}
        self._gates = gates
        # Blocks without a name are run at once, and values are made once if something needs them.
        self._run = [block for block in own if not block.function]
        self._run += [block for block in shared if not block.names]
        while values := self._values_needed():
            self._run += values

    def _values_needed(self) -> list[Block]:
        everything = [*self._run, *self._reached(self._run, through_gates=True)]
        used = set().union(*(block.uses for block in everything))
        return [
            block
            for block in self._blocks
            if not block.function and block not in self._run and not used.isdisjoint(block.names)
        ]

    def text(self) -> str:
        """The script."""
        made = self._reached(self._run)
        scope = frozenset(block.function for block in made)
        return "".join(
            self._made(block, scope) if block in made else block.text
            for block in self._blocks
            if block in made or block in self._run
        )

    def _made(self, block: Block, scope: frozenset[str | None]) -> str:
        """The text of a function; a gate's includes the functions it needs but has not in scope."""
        if block.function not in self._gates:
            return block.text
        inner = [needed for needed in self._reached([block]) if needed.function not in scope]
        scope |= {needed.function for needed in inner}
        head, line, body = block.text.partition("\n")
        return head + line + "".join(self._made(needed, scope) for needed in inner) + body

    def _reached(self, start: Sequence[Block], *, through_gates: bool = False) -> list[Block]:
        """The functions that blocks use, also indirectly, in order; behind gates only if wanted."""
        reached: set[str] = set()
        ahead = [name for block in start for name in block.uses]
        while ahead:
            name = ahead.pop()
            if name in self._functions and name not in reached:
                reached.add(name)
                if through_gates or name not in self._gates:
                    ahead += self._functions[name].uses
        return [block for block in self._blocks if block.function in reached]
