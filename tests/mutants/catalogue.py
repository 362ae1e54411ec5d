"""Bugs written by hand that a real queue has had or could have: `catalogue/*.txt`.

Each is a block of lines; the last one is optional:

    a heartbeat revives a lapsed lease
    @ stores/memory/jobs.py heartbeat
    - job.at <= now
    + False
    ! tests/stores/memory/test_large_queues.py

`@` names a file and a function or class in it. In Python, `-` is a statement, an expression or a
keyword argument that occurs there once, in any layout; without `+` it is removed. To remove an
operand, replace it with `True` or `False`; to add a statement, repeat the one beside it. In Lua and
SQL, `-` is any text, with any white space, and `@` may name a function or a statement. `!` names
the tests that must fail, if the conformance suite and the model cannot show the bug.
"""

from __future__ import annotations

from pathlib import Path

from tests.mutants.mutant import Mutant

_FOLDER = Path(__file__).with_name("catalogue")


def read_mutants(text: str) -> list[Mutant]:
    """The mutants of a file of the catalogue."""
    return [_read_mutant(block.splitlines()) for block in text.strip().split("\n\n")]


def _read_mutant(lines: list[str]) -> Mutant:
    parts: dict[str, list[str]] = {prefix: [] for prefix in "@-+!"}
    for line in lines[1:]:
        prefix, _, rest = line.partition(" ")
        parts[prefix].append(rest)
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
