"""Type checkers accept right calls of the library, and reject wrong ones.

In `cases/`, a line that ends with `# error` must be rejected, and no other line may be; nor may one
of the example of a shop.
Users who check strictly must not see an unknown type either.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

CASES = Path(__file__).parent / "cases"
ROOT = CASES.parents[2]
SHOP = ROOT / "examples" / "shop"
PROGRAMS = Path(sys.executable).parent


class Line(NamedTuple):
    """A line of a case."""

    file: str
    number: int


Errors = dict[Line, str]


def mypy(folder: Path) -> Errors:
    """The errors that mypy finds with its own defaults."""
    cache = ROOT / ".mypy_cache" / "typing"
    done = run("mypy", "--strict", "--config-file=", f"--cache-dir={cache}", CASES, SHOP)
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert f"in {len({file for file, *_ in found})} files" in done.stdout, done.stdout + done.stderr
    return {Line(Path(file).name, int(number)): message for file, number, message in found}


def pyright(folder: Path) -> Errors:
    """The errors and warnings that pyright finds."""
    settings = folder / "settings.json"
    settings.write_text(
        json.dumps({"include": [str(CASES), str(SHOP)], "typeCheckingMode": "strict"})
    )
    done = run("basedpyright", "--outputjson", "-p", settings, "--pythonpath", sys.executable)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files())
    return {
        Line(Path(found["file"]).name, found["range"]["start"]["line"] + 1): found["message"]
        for found in report["generalDiagnostics"]
    }


def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [PROGRAMS / program, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def files() -> list[Path]:
    return [*CASES.glob("*.py"), *SHOP.glob("*.py")]


def marked_lines() -> set[Line]:
    return {
        Line(file.name, number)
        for file in CASES.glob("*.py")
        for number, text in enumerate(file.read_text().splitlines(), 1)
        if text.endswith("# error")
    }


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_checker_rejects_the_marked_lines_and_no_others(
    checker: Callable[[Path], Errors], tmp_path: Path
) -> None:
    found, marked = checker(tmp_path), marked_lines()

    assert {line: message for line, message in found.items() if line not in marked} == {}
    assert sorted(marked - found.keys()) == []


def test_there_are_right_and_wrong_calls() -> None:
    lines = [line for file in CASES.glob("*.py") for line in file.read_text().splitlines()]

    assert len(marked_lines()) > 60
    assert sum("assert_type(" in line for line in lines) > 40
