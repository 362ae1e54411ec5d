"""The scripts are described, complete and valid."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import ackline.stores.redis as package
from ackline.core.job import State
from ackline.core.lifecycle import STATES_THAT_KEEP_ID
from ackline.stores.contract import HISTORY_LIMIT
from ackline.stores.redis.encode_jobs import NO_JOB, REFUSED
from ackline.stores.redis.lua import script
from ackline.stores.shared.record_encoding import STATE_CODES

FOLDER = Path(package.__file__).parent
SCRIPTS = sorted((FOLDER / "lua").glob("*.lua"))
LIBRARY = sorted((FOLDER / "lua" / "lib").glob("*.lua"))

INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)

GIVEN = {
    *("redis", "struct", "cmsgpack", "bit", "string", "table", "math", "KEYS", "ARGV"),
    *("tonumber", "tostring", "ipairs", "pairs", "unpack", "select", "type", "error", "next"),
}
"""Globals of scripts."""

WORDS = {"and", "or", "not", "if", "elseif", "while", "return", "function", "for", "in", "until"}
"""Keywords that may precede a parenthesis."""

MODULES = sorted([*FOLDER.glob("*.py"), *(FOLDER / "io").glob("*.py")])

RUNS = re.compile(r"\.run\(|\.run_durably\(|connection\.run\b|\bscript\(|EVALSHA")

ALL_BEHIND = 10**6


def strings(path: Path, names: set[str]) -> list[tuple[str, str]]:
    """The names that a module passes to calls as strings, each with the module's own name."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return [
        (argument.value, path.stem)
        for call in calls
        for argument in call.args
        if isinstance(argument, ast.Constant) and argument.value in names
    ]


def header_of(path: Path) -> str:
    """The comment at the start of a file."""
    lines = path.read_text().splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(lines[:end])


def code_of(text: str) -> str:
    """A script without its comments and strings."""
    return re.sub(r"""'[^'\n]*'|"[^"\n]*\"""", "''", re.sub(r"--.*", "", text))


def described(header: str, name: str) -> list[tuple[int, int]]:
    """The keys or arguments that a header describes: `ARGV[2]`, or `ARGV[2…]` and on."""
    found = re.findall(rf"^-- +{name}\[(\d+)(…?)\]  ", header, re.MULTILINE)
    return [(int(number), ALL_BEHIND if more else int(number)) for number, more in found]


def undescribed(used: set[int], spans: list[tuple[int, int]]) -> set[int]:
    return {n for n in used if not any(first <= n <= last for first, last in spans)}


def numbers(name: str, code: str) -> set[int]:
    return {int(number) for number in re.findall(rf"{name}\[(\d+)\]", code)}


def has_shared_arguments(header: str) -> bool:
    """Whether its first keys and arguments are those that lib/queue.lua describes."""
    return "include lib/queue.lua" in header


@pytest.mark.parametrize("path", [*SCRIPTS, *LIBRARY], ids=lambda path: path.stem)
def test_a_file_starts_with_its_purpose(path):
    assert re.match(r"-- [A-Z`]", path.read_text())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
class TestHeader:
    def test_it_describes_the_arguments(self, path):
        header, code = header_of(path), code_of(path.read_text())
        shared = {1} if has_shared_arguments(header) else set()
        spans = described(header, "ARGV")

        assert undescribed(numbers("ARGV", code) - shared, spans) == set()
        if re.search(r"#ARGV|ARGV\[[a-z]|\(ARGV, |apply_transitions\(|read_runs\(", code):
            assert any(last == ALL_BEHIND for _, last in spans)

    def test_it_describes_the_keys(self, path):
        header, code = header_of(path), code_of(path.read_text())
        shared = {1, 2} if has_shared_arguments(header) else set()
        used = numbers("KEYS", code) | ({3} if "apply_transitions(" in code else set())

        assert undescribed(used - shared, described(header, "KEYS")) == set()

    def test_it_describes_what_it_returns(self, path):
        answers = re.findall(r"^return (.+)$", path.read_text(), re.MULTILINE)

        assert answers
        if answers != ["redis.status_reply('OK')"]:
            assert re.search(r"^-- Returns  ", header_of(path), re.MULTILINE)

    def test_it_describes_its_errors(self, path):
        raised = set(re.findall(r"error_reply\('(\w+)", path.read_text()))
        told = re.search(r"^-- Errors  .*", header_of(path), re.MULTILINE | re.DOTALL)

        assert raised <= set(re.findall(r"[A-Z]{3,}", told[0] if told else ""))


class TestConstants:
    """Constants that scripts and Python share are the same."""

    def number(self, file: str, name: str) -> int:
        text = (FOLDER / "lua" / file).read_text()
        [value] = re.findall(rf"^local {name} = (\d+)$", text, re.MULTILINE)
        return int(value)

    def test_the_limits(self):
        assert self.number("lib/apply.lua", "HISTORY_LIMIT") == HISTORY_LIMIT

    def test_the_states_and_their_codes(self):
        text = (FOLDER / "lua" / "lib" / "queue.lua").read_text()
        said = re.findall(r"^local ([A-Z, ]+) = (\d[\d, ]*)$", text, re.MULTILINE)
        codes = {
            name: int(code)
            for names, values in said
            for name, code in zip(names.split(", "), values.split(", "), strict=True)
            if name in State.__members__
        }

        assert codes == {state.name: code for state, code in STATE_CODES.items()}

    def test_the_states_in_which_a_job_keeps_its_id(self):
        text = (FOLDER / "lua" / "enqueue.lua").read_text()
        stays = re.search(r"^local KEEPS_ID = \{(.*?)\}$", text, re.MULTILINE | re.DOTALL)

        assert stays is not None
        assert set(re.findall(r"\[(\w+)\]", stays[1])) == {
            state.name for state in STATES_THAT_KEEP_ID
        }

    def test_the_verdicts(self):
        text = (FOLDER / "lua" / "lib" / "job.lua").read_text()

        assert f"local REFUSED, NO_JOB = {REFUSED}, {NO_JOB}\n" in text


class TestFiles:
    def test_every_include_exists_and_every_shared_file_is_included(self):
        included = {name for path in SCRIPTS for name in INCLUDE.findall(path.read_text())}

        assert included == {f"lib/{path.name}" for path in LIBRARY}

    def test_shared_files_include_nothing_themselves(self):
        assert [path.name for path in LIBRARY if INCLUDE.search(path.read_text())] == []

    def test_every_script_is_called_in_one_place_only(self):
        """There its keys, arguments and answer have names and types."""
        names = {path.stem for path in SCRIPTS}
        named = [found for path in MODULES for found in strings(path, names)]

        assert sorted(named) == sorted(
            (name, "connection" if name == "write_marker" else "scripts") for name in names
        )

    def test_no_other_module_runs_scripts_by_their_name(self):
        callers = {path.stem for path in MODULES if RUNS.search(path.read_text())}

        assert callers == {"connection", "scripts"}

    def test_control_other_calls_are_found(self, tmp_path):
        path = tmp_path / "other.py"
        path.write_text('scripts.connection.run("prune", [], [1])\nname = "drop"\n')

        assert RUNS.search(path.read_text())
        assert strings(path, {"prune", "drop", "purge"}) == [("prune", "other")]


@pytest.mark.parametrize("name", [path.stem for path in SCRIPTS])
class TestText:
    def test_the_server_understands_it(self, client, name):
        assert client.script_load(script(name).text) == script(name).sha

    def test_it_has_no_global_names(self, name):
        code = code_of(script(name).text)
        assigned = {
            word
            for names in re.findall(
                r"^ *([a-zA-Z_][\w, ]*?) = ", without_tables(code), re.MULTILINE
            )
            if not names.startswith(("local ", "for "))
            for word in names.split(", ")
        }

        assert assigned - declared(code) == set()

    def test_every_function_that_it_calls_exists(self, name):
        """What a file needs is included before it."""
        code = code_of(script(name).text)
        called = set(re.findall(r"(?<![.:\w])([a-zA-Z_]\w*)\(", code))

        assert called - declared(code) - GIVEN - WORDS == set()
        assert called_out_of_scope(code) == set()


TOKEN = re.compile(
    r"\blocal function (\w+)|(?<![.:\w])(\w+)\(|\b(function|if|do|repeat|end|until)\b"
)


def called_out_of_scope(code: str) -> set[str]:
    """Functions that are called before their definition or outside their scope."""
    functions = set(re.findall(r"\blocal function (\w+)", code))
    scopes: list[set[str]] = [set()]
    missing = set()
    for made, called, word in TOKEN.findall(code):
        if made:
            scopes[-1].add(made)
            scopes.append(set())
        elif called == "function" or word in ("function", "if", "do", "repeat"):
            scopes.append(set())
        elif word:
            scopes.pop()
        elif called in functions and not any(called in scope for scope in scopes):
            missing.add(called)
    assert len(scopes) == 1
    return missing


def test_the_test_knows_scopes():
    inner = "local function a()\n  local function b()\n  end\n  b()\nend\n"

    assert called_out_of_scope(inner + "a()\n") == set()
    assert called_out_of_scope(inner + "b()\n") == {"b"}
    assert called_out_of_scope("a()\n" + inner) == {"a"}


def without_tables(code: str) -> str:
    """Without the contents of braces, where names are not variables."""
    while "{" in code:
        code = re.sub(r"\{[^{}]*\}", "0", code)
    return code


def declared(code: str) -> set[str]:
    """All local names."""
    names = re.findall(r"\blocal ((?!function)[\w, ]+)", code)
    names += re.findall(r"\bfunction \w*\(([\w, ]*)\)", code)
    names += re.findall(r"\bfor ([\w, ]+) (?:in|=)", code)
    names += re.findall(r"\blocal function (\w+)", code)
    return {word for line in names for word in re.split(r"[, ]+", line)}
