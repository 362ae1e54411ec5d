from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ackline.core.job import State
from tests.cli.conftest import SOURCE


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lst"], "Did you mean 'list'"),
        (["list"], "missing argument"),
        (["list", "q", "--foo"], "--foo"),
        (["list", "q", "--limit", "x"], "--limit"),
        (["list", "q", "--state", "gone"], "--state"),
        (["worker", "x:y", "--concurrency", "0"], "--concurrency"),
    ],
)
def test_usage_errors_are_two_lines(cli, arguments, words):
    answer = cli(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err
    assert len(answer.err.splitlines()) == 2


def test_an_invalid_choice_lists_the_valid_ones(cli):
    output = cli("list", "q", "--state", "gone").err
    assert "'gone'" in output
    assert all(repr(str(state)) in output for state in State)


@pytest.mark.parametrize("command", ["serve", "demo"])
@pytest.mark.parametrize("port", ["99999", "-1", "http"])
def test_an_invalid_port_is_a_usage_error(cli, command, port):
    answer = cli(command, "--port", port)
    assert answer.code == 2
    assert repr(port) in answer.err


def test_an_invalid_option_of_the_service_is_named(cli):
    answer = cli("serve", "--base-path", "api")
    assert answer.code == 2
    assert "--base-path" in answer.err


@pytest.mark.parametrize(
    ("store", "code", "words"),
    [
        ("/nowhere/at/all.db", 3, "no directory"),
        ("redis+nothing://x", 2, "Known schemes"),
        ("memory://name", 2, "memory"),
        ("sqlite://host/x.db", 2, "names no file"),
        (".", 3, "directory"),
    ],
)
def test_unusable_stores_have_their_exit_codes(cli, store, code, words):
    answer = cli("enqueue", "q", "1", "--store", store)
    assert (answer.code, answer.out) == (code, "")
    assert words in answer.err
    assert len(answer.err.splitlines()) <= 2


def test_a_file_that_is_not_a_database(cli, workdir):
    (workdir / "ackline.db").write_bytes(b"not a database at all" * 100)
    answer = cli("queues")
    assert answer.code == 3
    assert "not a SQLite database" in answer.err


def test_a_bug_is_one_line_unless_debugging(cli, queues, monkeypatch):
    queues["q"].enqueue(1)

    def broken(*_):
        raise RuntimeError("oops")

    monkeypatch.setattr("ackline.cli.commands.queues.oldest_age", broken)
    answer = cli("queues")
    assert answer.code == 1
    assert "unexpected RuntimeError: oops" in answer.err
    assert "Traceback" not in answer.err
    assert "Traceback" in cli("queues", "--debug").err


def test_a_memory_store_warns_that_nothing_is_kept(cli):
    assert "nothing is kept" in cli("enqueue", "q", "1", "--store", "memory://").err


def test_help_and_version(cli):
    assert "Getting started" in cli("--help").out
    assert cli("-h").code == 0
    assert cli("--version").out.startswith("ackline ")
    assert cli().code == 2


def test_a_closed_pipe_ends_quietly(queues, workdir):
    queues["q"].enqueue_many(range(20_000))
    for events in ("events", "events --json"):
        command = f"{sys.executable} -m ackline {events} | head -1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", command],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        assert done.stdout.splitlines()[1] == "141"
        lines = [line for line in done.stderr.splitlines() if not line.startswith("store ")]
        assert lines == []
