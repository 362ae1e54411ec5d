"""Makes one script of a verb's file and the shared ones.

A server makes the functions of a script anew at every call, and each takes longer the more of
them there are: for a verb on one job that would be most of its time. So a script gets only what
it uses, constants are put in place, and what is needed only behind a gate (a function with the
word `gate` above it, entered once at most and often not at all) is made behind that gate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_GATE = re.compile(r"^-- gate\n(?=local function (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)
_BLOCK = re.compile(r"^(?=[^\s})e]|e(?!nd\b|lse))", re.MULTILINE)
_FUNCTION = re.compile(r"local function (\w+)")
_VALUES = re.compile(r"local ([\w, ]+?) = (.*)", re.DOTALL)
_CONSTANT = re.compile(r"[A-Z][A-Z_]*")
_LITERAL = re.compile(r"-?\d[\d *]*|'[^']*'")
_WORD = re.compile(r"'[^'\n]*'|(?<![.:])\b[A-Za-z_]\w*")


class Block:
    """A statement at the outermost level: the names that it makes known, and those it uses."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = _names_of(text)
        self.uses = set(_WORD.findall(text)).difference(self.names)
        self.function = self.names[0] if _FUNCTION.match(text) else None

    @property
    def constants(self) -> dict[str, str]:
        """What it says if it only gives names to literals, else nothing."""
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


def link(shared: Iterable[str], own: str) -> str:
    """One script of the shared texts, in this order, and the verb's own."""
    common = "".join(shared)
    blocks, run = _split(common), _split(own)
    constants: dict[str, str] = {}
    for block in [*blocks, *run]:
        constants |= block.constants
    gates = set(_GATE.findall(common + own))
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
        self._by_name = {name: block for block in self._blocks for name in block.names}
        # What is not used is left out, but for what a verb does and what nobody calls by name.
        nameless = [block for block in shared if not block.names]
        self._run = [*nameless, *(block for block in own if not block.function)]
        self._used = self._reached()
        behind = {gate: self._used - self._reached(gate) - {gate} for gate in gates & self._used}
        self._smallest_first = sorted(behind.items(), key=lambda item: len(item[1]))

    def text(self) -> str:
        """The script."""
        return self._texts(None)

    def _texts(self, gate: str | None) -> str:
        """All that is made behind a gate, or in front of them all."""
        return "".join(
            self._text(block)
            for block in self._blocks
            if self._is_used(block) and self._gate_of(block) == gate
        )

    def _text(self, block: Block) -> str:
        if not block.function:
            return block.text
        head, line, body = block.text.partition("\n")
        return head + line + self._texts(block.function) + body

    def _is_used(self, block: Block) -> bool:
        return block in self._run or not self._used.isdisjoint(block.names)

    def _gate_of(self, block: Block) -> str | None:
        behind = (gate for gate, names in self._smallest_first if block.function in names)
        return next(behind, None)

    def _reached(self, without: str | None = None) -> set[str]:
        """All names that the script comes to, unless by way of one function."""
        reached: set[str] = set()
        ahead = [name for block in self._run for name in block.uses.union(block.names)]
        while ahead:
            name = ahead.pop()
            if name not in reached and name != without:
                reached.add(name)
                ahead += self._by_name[name].uses if name in self._by_name else ()
        return reached
