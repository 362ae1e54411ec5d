"""The help fits a terminal of 80 columns, and says what can be written."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

from ackline.cli.app import Commands, app
from ackline.cli.pipeline import pipeline
from ackline.core.events import Act
from ackline.core.job import State


def commands() -> list[list[str]]:
    """All that have a help of their own."""
    program = app.load()
    groups = {n: c for n, c in program.commands.items() if isinstance(c, click.Group)}
    assert isinstance(pipeline, Commands)
    groups["pipeline"] = pipeline.load()
    inner = [[name, other] for name, group in groups.items() for other in group.commands]
    return [[], *([name] for name in program.commands), *inner]


@pytest.fixture
def show(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *command: cli(*command, "--help").out


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_the_help_of_every_command_fits_and_has_the_common_options(show, command):
    output = show(*command)
    assert max(map(len, output.splitlines())) <= 80
    assert "-h, --help" in output
    assert "..." not in output.partition("Commands:")[2], "a summary is cut off"
    if command not in (["pipeline"], ["token"], ["webhook"]):
        assert all(f"  {option} " in output for option in ("--store", "--tenant", "--json"))


def test_the_commands_stand_under_headings_in_the_order_of_the_table(show):
    words = [
        line.split()[0]
        for line in show().partition("Getting started:")[2].splitlines()
        if line.strip()
    ]
    order = [
        "demo",
        "Running:",
        "enqueue",
        "Inspecting:",
        "queues",
        "Operating:",
        "pause",
        "Spark:",
    ]
    assert [word for word in words if word in order] == order


def test_choices_are_listed(show):
    assert "--log-format [text|json]" in show("serve")
    assert "--maintenance / --no-maintenance" in show("serve")
    assert all(state in show("list") for state in State)
    output = show("webhook", "create")
    assert all(word in output for word in (*State, *Act))


def test_defaults_and_required_options_are_shown(show):
    assert "Number of processes.  [default: 1; x>=1]" in show("worker")
    assert "--grace SPAN" in show("worker")
    assert "[default: 30s]" in show("worker")
    assert "The target store.  [required]" in show("relay")


def test_paragraphs_are_filled_and_examples_keep_their_lines(show):
    lines = show("worker").splitlines()
    assert "  ackline worker shop.jobs:app --queues email,images --processes 4" in lines
    assert "  ackline worker orders:paid orders:free --weights 3,1" in lines
    assert any(line.endswith("all others are") for line in lines)


@pytest.mark.parametrize(
    ("words", "proposed"),
    [(["ackline", "li"], "list"), (["ackline", "list", "q", "--sta"], "--state")],
)
def test_a_shell_completes_commands_and_options(words, proposed):
    environment = {"_ACKLINE_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words)}
    done = subprocess.run(
        [sys.executable, "-m", "ackline"],
        env={**os.environ, **environment, "COMP_CWORD": str(len(words) - 1)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"plain,{proposed}\n" in done.stdout
