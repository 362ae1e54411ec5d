"""Faults made by hand, each one that a real queue has had or could have: `catalogue/*.txt`.

Each is a block of lines; what a fault needs no test of its own for leaves out the last:

    a heartbeat revives a lapsed lease
    @ stores/memory/jobs.py heartbeat
    - job.at <= now
    + False
    ! tests/stores/memory/test_large_queues.py

In Python, `-` is a statement, an expression or a keyword argument that the function (or class, or
module) has once, however it is laid out; without `+` it goes. To leave out an operand, say `True`
or `False` instead; to add a statement, repeat its neighbour. In Lua and SQL, `-` is any text, in
which white space is all alike, and `@` may name a function or a statement there, too.
"""

from __future__ import annotations

from pathlib import Path

from tests.mutants.mutant import Mutant

_FOLDER = Path(__file__).with_name("catalogue")


def read_mutants(text: str) -> list[Mutant]:
    """The mutants of a file of the catalogue."""
    return [_read_mutant(block.splitlines()) for block in text.strip().split("\n\n")]


def _read_mutant(lines: list[str]) -> Mutant:
    parts: dict[str, list[str]] = {mark: [] for mark in "@-+!"}
    for line in lines[1:]:
        mark, _, rest = line.partition(" ")
        parts[mark].append(rest)
    path, _, scope = parts["@"][0].partition(" ")
    return Mutant(
        lines[0], path, scope, "\n".join(parts["-"]), "\n".join(parts["+"]), "".join(parts["!"])
    )


ALL = [
    mutant for file in sorted(_FOLDER.glob("*.txt")) for mutant in read_mutants(file.read_text())
]
QUICK = [
    mutant
    for mutant in ALL
    if mutant.name in ("the fence is not checked", "a promotion has no journal entry")
]
