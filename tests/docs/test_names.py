"""No name in the code contains a word of the list in docs/architecture.md."""

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

LISTED = re.compile(r"<!-- never -->(.*)<!-- /never -->", re.DOTALL)
ROW = re.compile(r"^\| ([a-z, ]+) \| .* \|$", re.MULTILINE)
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

CHECKED = (
    "src",
    "tools",
    "examples",
    "benchmarks",
    "tests/harness",
    "tests/faults",
    "tests/mutants",
)
"""Folders whose names are checked."""

LATER = ("src/ackline/spark/lake", "src/ackline/spark/fleet")
"""Folders that are not checked yet: both are about to be rebuilt."""

EXEMPT: dict[str, str] = {}
"""Names that keep such a word, and why."""


def never() -> frozenset[str]:
    [table] = LISTED.findall((DOCS / "architecture.md").read_text())
    rows = [row for row in ROW.findall(table) if row != "not"]
    return frozenset(word for row in rows for word in row.split(", "))


def forms(word: str) -> set[str]:
    """A word with the endings that names have: plural, past, participle, agent."""
    stem = word.removesuffix("e")
    consonant = word + word[-1]
    endings = {f"{stem}{ending}" for ending in ("ed", "ing", "er", "ers", "en")}
    doubled = {f"{consonant}{ending}" for ending in ("ed", "ing", "er")}
    changed = {f"{word[:-1]}{ending}" for ending in ("ies", "ied")} if word[-1] == "y" else set()
    return {word, f"{word}s", *endings, *doubled, *changed}


def parts(name: str) -> list[str]:
    """The words of a name in snake_case or CamelCase."""
    return [part.lower() for part in PARTS.findall(name)]


def names_in(source: str) -> set[str]:
    """What a module defines: classes, functions, parameters, variables, attributes, aliases."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                # The name of a test is a sentence.
                names |= {name} if not name.startswith("test_") else set()
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.alias(asname=str(name)):
                names.add(name)
            case _:
                pass
    return names


def offending(names: set[str], words: frozenset[str]) -> list[str]:
    unwanted = set().union(*map(forms, words))
    return sorted(name for name in names - EXEMPT.keys() if unwanted.intersection(parts(name)))


def modules() -> list[Path]:
    found = {module for folder in CHECKED for module in (ROOT / folder).rglob("*.py")}
    return sorted(found - {module for folder in LATER for module in (ROOT / folder).rglob("*.py")})


def test_no_name_contains_a_listed_word() -> None:
    words = never()
    found = {
        str(module.relative_to(ROOT)): bad
        for module in modules()
        if (bad := offending(names_in(module.read_text()) | {module.stem}, words))
    }

    assert found == {}, "see the end of docs/architecture.md for what to write instead"


def test_no_package_is_named_by_a_listed_word() -> None:
    folders = {module.parent.name for module in modules()}

    assert offending(folders, never()) == []


def test_every_exemption_is_needed() -> None:
    names = set().union(*(names_in(module.read_text()) for module in modules()))

    assert EXEMPT.keys() - names == set()


@pytest.mark.parametrize(
    "source",
    [
        "class JobCourier: ...",
        "def list_stations(): ...",
        "async def settle(patience): ...",
        "def settle(*, _surveying=None): ...",
        "STINT_LIMIT = 1",
        "self._desks = {}",
        "for _hurried, b in pairs: ...",
        "import asyncio as bell",
    ],
)
def test_a_name_with_a_listed_word_is_found(source: str) -> None:
    assert len(offending(names_in(source), never())) == 1


@pytest.mark.parametrize(
    "source",
    ["class HTTPHeartbeat: ...", "dashboard = keyboard = 1", "def test_a_bell_rings(): ..."],
)
def test_other_names_are_not(source: str) -> None:
    assert offending(names_in(source), never()) == []


def test_the_list_has_words() -> None:
    assert {"courier", "desk", "setback"} <= never()
    assert len(never()) > 10
