"""Every command is documented, and every command on a page exists."""

import click
import pytest

from tests.docs.pages import (
    all_pages,
    blocks_of,
    command_lines,
    inline_commands,
    name_of,
    written_pages,
)


def shown_on(page):
    lines = [line.arguments for block in blocks_of(page) for line in command_lines(block)]
    return [line for line in [*lines, *inline_commands(page)] if line]


def parse(program, arguments):
    """Parse a command line without running it."""
    words = list(arguments)
    while words and words[0].startswith("-"):
        takes_value = words[0] in ("--store", "--tenant")
        words = words[2 if takes_value else 1 :]
    if not words:
        return
    assert words[0] in program.commands, f"there is no command {words[0]!r}"
    if "--help" in words or len(words) == 1:
        return
    # With its parent: click keeps the help option of a command's first context.
    parent = click.Context(program, info_name="ackline", **program.context_settings)
    program.commands[words[0]].make_context(words[0], words[1:], parent=parent)


@pytest.mark.parametrize("page", [p for p in all_pages() if shown_on(p)], ids=name_of)
def test_every_command_line_parses(page, program, working_directory):
    for arguments in shown_on(page):
        try:
            parse(program, arguments)
        except Exception as error:
            raise AssertionError(f"ackline {' '.join(arguments)}: {error}") from error


def test_every_command_is_in_a_guide(program):
    shown = {line[0] for page in written_pages() for line in shown_on(page)}

    assert {name for name, one in program.commands.items() if not one.hidden} <= shown
