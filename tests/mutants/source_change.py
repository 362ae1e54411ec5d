"""Apply a mutant: to the syntax tree of Python, to the text of SQL and Lua."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path


class StaleMutant(Exception):
    """A mutant that no longer applies; the message says what to do."""


def changed(text: str, path: str, scope: str, old: str, new: str) -> str:
    """Replace `old` with `new` in the text of a file, where it must occur once."""
    where = f"{path} {scope}".rstrip()
    if Path(path).suffix == ".py":
        return _changed_python(text, where, scope, old, new)
    begin, end = _section(text, where, scope)
    pattern = re.compile(r"\s+".join(re.escape(word) for word in old.split()))
    found = list(pattern.finditer(text, begin, end))
    _require_one(len(found), where, old)
    return text[: found[0].start()] + new + text[found[0].end() :]


def _changed_python(text: str, where: str, scope: str, old: str, new: str) -> str:
    module = ast.parse(text)
    swap = _Swap(ast.parse(old).body, ast.parse(new).body)
    for node in _scopes(module, where, scope):
        swap.visit(node)
    _require_one(swap.found, where, old)
    return ast.unparse(ast.fix_missing_locations(module))


class _Swap(ast.NodeTransformer):
    """Replaces a statement, an expression or a keyword argument."""

    def __init__(self, old: list[ast.stmt], new: list[ast.stmt]) -> None:
        [statement] = old
        self._old, self._new, self.found = _readings(statement), new, 0

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        kind = next((kind for kind, old in self._old.items() if _same(node, old)), None)
        if kind is None:
            return self.generic_visit(node)
        self.found += 1
        new = [_readings(statement)[kind] for statement in self._new]
        if kind is ast.expr:
            [expression] = new
            return expression
        return new or ([ast.Pass()] if kind is ast.stmt else [])


def _readings(statement: ast.stmt) -> dict[type[ast.AST], ast.AST]:
    """What a line of a mutant may mean: `a = b` may also be a keyword argument."""
    readings: dict[type[ast.AST], ast.AST] = {ast.stmt: statement}
    match statement:
        case ast.Expr(value):
            readings[ast.expr] = value
        case ast.Assign([ast.Name(name)], value):
            readings[ast.keyword] = ast.keyword(name, value)
        case _:
            pass
    return readings


def _same(one: ast.AST, other: ast.AST) -> bool:
    return type(one) is type(other) and ast.dump(one) == ast.dump(other)


def _scopes(module: ast.Module, where: str, scope: str) -> list[ast.AST]:
    """The nodes with a qualified name; there are several for a property and its setter."""
    nodes: list[ast.AST] = [module]
    for name in filter(None, scope.split(".")):
        nodes = [found for node in nodes for found in _named(node, name)]
        if not nodes:
            raise StaleMutant(f"{where}: there is no {name}; say where its code is now")
    return nodes


def _named(node: ast.AST, name: str) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _named(child, name)
        elif child.name == name:
            yield child


def _section(text: str, where: str, scope: str) -> tuple[int, int]:
    """The span of a Lua function or a named SQL statement."""
    name = re.escape(scope)
    lua = rf"^(local )?function {name}\(.*?^end$"
    sql = rf"^-- name: {name}\b.*?(?=^-- name: |\Z)"
    found = re.search(f"{lua}|{sql}", text, re.MULTILINE | re.DOTALL) if scope else None
    if scope and found is None:
        raise StaleMutant(f"{where}: there is no {scope}; say where its code is now")
    return found.span() if found else (0, len(text))


def _require_one(found: int, where: str, old: str) -> None:
    if found != 1:
        advice = "quote what stands there now" if found == 0 else "quote more of it"
        raise StaleMutant(f"{where} has this {found} times, not once, so {advice}:\n{old}")
