"""The page that walks a job through the code names files and functions that are there."""

import ast
import re

import pytest

from tests.docs.pages import DOCS, ROOT

WALK = DOCS / "one-job-through-the-code.md"
NAMED = re.compile(r"`(src/ackline/[\w/]+\.(?:py|sql))(?:::([\w.]+))?`")
EXCERPT = re.compile(
    r"^From `([^`]+)`:\n\n```(?:python|sql|py)?\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


def named():
    return sorted(set(NAMED.findall(WALK.read_text())))


def defined_in(file):
    """The functions, classes, methods and constants of a module; the queries of a SQL file."""
    if file.suffix == ".sql":
        return set(re.findall(r"^-- name: (\w+)", file.read_text(), re.MULTILINE))
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


def test_it_names_enough_to_be_a_walk():
    assert len(named()) > 20


@pytest.mark.parametrize(("path", "name"), named())
def test_what_it_names_is_there(path, name):
    file = ROOT / path
    assert file.exists()
    assert not name or name in defined_in(file), f"{path} has no {name}"


@pytest.mark.parametrize(("path", "excerpt"), EXCERPT.findall(WALK.read_text()))
def test_its_excerpts_are_the_code(path, excerpt):
    source = squeezed((ROOT / path).read_text())
    missing = [part for part in excerpt.split("…") if squeezed(part) not in source]
    assert missing == []


def squeezed(code):
    """The same however its lines are broken."""
    return re.sub(r",(?=[)\]}])", "", "".join(code.split()))
