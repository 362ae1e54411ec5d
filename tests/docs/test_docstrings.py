"""The examples in docstrings run, and print what stands below them."""

import doctest
import importlib
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

SOURCE = ROOT / "src"


def modules_with_examples() -> list[str]:
    files = [file for file in SOURCE.glob("ackline/**/*.py") if ">>> " in file.read_text()]
    return sorted(map(module_name, files))


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))

    assert result.failed == 0


def test_an_example_with_another_result_fails() -> None:
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "sum", None, None)

    assert doctest.DocTestRunner().run(example, out=lambda _text: None).failed == 1
