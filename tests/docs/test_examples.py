"""The examples import names that exist, and the pages name programs that exist."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, all_pages, name_of

EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
PROGRAM = re.compile(r"python -m ((?:tests|tools)[\w.]*\w)")


def imports_of(file):
    """The modules that a file imports names from, with these names."""
    nodes = ast.walk(ast.parse(file.read_text()))
    return [
        (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (node.module or "").startswith("ackline")
    ]


def exists(program: str) -> bool:
    path = Path(ROOT, *program.split("."))
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


@pytest.mark.parametrize("file", EXAMPLES, ids=name_of)
def test_an_example_imports_what_exists(file):
    for module, name in imports_of(file):
        imported = importlib.import_module(module)
        if not hasattr(imported, name):
            importlib.import_module(f"{module}.{name}")


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_a_page_names_programs_that_exist(page):
    named = set(PROGRAM.findall(page.read_text()))

    assert [program for program in named if not exists(program)] == []


def test_there_are_examples_and_programs():
    assert any(imports_of(file) for file in EXAMPLES)
    assert any(PROGRAM.search(page.read_text()) for page in all_pages())
