"""The help fits a terminal of 80 columns, and says what can be written."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from ackline.cli.app import app
from ackline.cli.commands import load_all
from ackline.cli.help import paragraphs
from ackline.events import Act
from ackline.job import State


def commands() -> list[list[str]]:
    """All that have a help of their own."""
    load_all()
    program: Any = typer.main.get_command(app)
    inner = [
        [name, other]
        for name, group in program.commands.items()
        for other in getattr(group, "commands", ())
    ]
    return [[], *([name] for name in program.commands), *inner]


@pytest.fixture
def show(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *command: cli(*command, "--help").out


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_name_stands_in_one_line_beside_its_meaning(show, command):
    lines = show(*command).splitlines()

    assert max(map(len, lines)) <= 80
    rows = [line[2:-2] for line in lines if line.startswith("│")]
    assert [row for row in rows if row.startswith("--help, -h  ")]
    # A row that begins at the left has a name; the rest goes on with what the name means.
    for row in rows:
        name, gap, meaning = row.partition("  ")
        assert not name or (gap and meaning.strip()), row


def test_choices_are_told(show):
    assert "--log-format text|json" in show("serve")
    assert "--[no-]maintenance" in show("serve")
    assert all(state in show("list") for state in State)
    said = show("webhook", "create")
    assert all(word in said for word in (*State, *Act))


def test_defaults_and_what_has_to_be_given(show):
    assert "How many processes. [default=1]" in show("worker")
    assert "--to URL" in show("relay")
    assert "The store to pass them on to. [required]" in show("relay")


def test_paragraphs_are_filled_and_examples_keep_their_lines():
    text = """Run the
    handlers.

    ackline worker a:b
    ackline worker c:d"""

    assert paragraphs(text)[0] == "Run the handlers."
    assert len(paragraphs(text)[1].splitlines()) == 2
