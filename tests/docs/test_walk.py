"""The pages about the code name files, folders and functions that exist."""

import ast
import re

import pytest

from tests.docs.pages import DOCS, ROOT

PAGES = ("architecture.md", "one-job-through-the-code.md")
NAMED = re.compile(
    r"`((?:\w+/)+(?:\w+\.(?:py|sql|lua))?|\w+\.py)"  # a folder, or a file
    r"(?:::([\w.]+))?"  # what it defines
    r"[`:]"
)
RELATIVE = {"sql/"}
"""Folders that several packages have."""


def named(page):
    return sorted(set(NAMED.findall((DOCS / page).read_text())) - {(name, "") for name in RELATIVE})


def all_named():
    return sorted({pair for page in PAGES for pair in named(page)})


def defined_in(file):
    """The functions, classes, methods and constants of a module; the queries or Lua functions."""
    if file.suffix == ".sql":
        return set(re.findall(r"^-- name: (\w+)", file.read_text(), re.MULTILINE))
    if file.suffix == ".lua":
        return set(re.findall(r"^local function (\w+)", file.read_text(), re.MULTILINE))
    names = set()

    def visit(node, prefix):
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names.add(prefix + name)
                case ast.ClassDef(name=name):
                    names.add(prefix + name)
                    visit(child, f"{prefix}{name}.")
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ):
                    names.add(prefix + name)
                case _:
                    pass

    visit(ast.parse(file.read_text()), "")
    return names


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_enough_to_be_a_guide(page):
    assert len(named(page)) > 30


@pytest.mark.parametrize(("path", "name"), all_named())
def test_what_the_pages_name_exists(path, name):
    places = [ROOT / "src" / "ackline" / path, ROOT / path]
    file = next((place for place in places if place.exists()), None)

    assert file is not None, f"there is no {path}"
    assert not name or name in defined_in(file), f"{path} has no {name}"
