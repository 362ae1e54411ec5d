"""The output of `--help`: names in one column, their meaning in the other, at any width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer.core
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

WIDEST = 100
"""Longer lines are hard to read."""

Row = tuple[str, str]


class Command(typer.core.TyperCommand):
    """A command with our help: Typer's has six columns, too many for a terminal of 80."""

    def format_help(self, ctx: Any, _formatter: Any) -> None:
        """Print it."""
        _show(self, ctx)


class Group(typer.core.TyperGroup):
    """A command with subcommands."""

    def format_help(self, ctx: Any, _formatter: Any) -> None:
        """Print it."""
        _show(self, ctx)
        _show_panels(_commands(self, ctx))


def placeholder(argument: Any) -> str:
    """An argument as it is written in a usage line."""
    name = argument.metavar or argument.name.upper()
    if argument.nargs == -1 and not name.endswith("..."):
        name += "..."
    return name if argument.required else f"[{name}]"


def paragraphs(help: str) -> list[str]:
    """The paragraphs of a help text, each on one line; examples keep theirs."""
    parts = (part.strip() for part in help.split("\n\n"))
    return [part if is_example(part) else " ".join(part.split()) for part in parts]


def is_example(paragraph: str) -> bool:
    """Whether it shows commands."""
    return paragraph.startswith("ackline ")


def _show(command: Any, context: Any) -> None:
    shown = [parameter for parameter in command.get_params(context) if not parameter.hidden]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    options = [parameter for parameter in shown if parameter.param_type_name == "option"]
    usage = [context.command_path, "[OPTIONS]", *map(placeholder, arguments)]
    if isinstance(command, Group):
        usage.append("COMMAND ...")
    _print(Text.assemble(("Usage: ", "yellow"), (" ".join(usage), "bold")))
    for part in paragraphs(command.help or ""):
        _print(Text(part, "cyan") if is_example(part) else Text.from_markup(part))
    _show_panels(
        {"Arguments": [(placeholder(parameter), parameter.help or "") for parameter in arguments]}
    )
    panels = _by_panel(options, "Options")
    _show_panels({name: [(_option(o), _meaning(o)) for o in of] for name, of in panels.items()})


def _print(text: Text) -> None:
    _console().print(Padding(text, (0, 1, 1, 1)))


def _show_panels(panels: Mapping[str, Sequence[Row]]) -> None:
    """Panels whose columns are aligned with each other."""
    width = max((len(left) for rows in panels.values() for left, _ in rows), default=0)
    for name, rows in panels.items():
        if rows:
            _show_panel(name, rows, width)


def _show_panel(name: str, rows: Sequence[Row], width: int) -> None:
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, style="bold cyan", min_width=width)
    table.add_column(ratio=1)
    for left, right in rows:
        table.add_row(Text(left), Text(right))
    _console().print(Panel(table, title=name, title_align="left", box=box.ROUNDED))


def _console() -> Console:
    console = Console(highlight=False)
    console.width = min(console.width, WIDEST)
    return console


def _commands(group: Group, context: Any) -> dict[str, list[Row]]:
    found = (group.get_command(context, name) for name in group.list_commands(context))
    shown = [command for command in found if command is not None and not command.hidden]
    return {
        name: [(command.name or "", paragraphs(command.help or "")[0]) for command in commands]
        for name, commands in _by_panel(shown, "Commands").items()
    }


def _by_panel(things: Iterable[Any], otherwise: str) -> dict[str, list[Any]]:
    panels: dict[str, list[Any]] = {otherwise: []}
    for thing in things:
        name = getattr(thing, "rich_help_panel", None)
        panels.setdefault(name if isinstance(name, str) else otherwise, []).append(thing)
    return panels


def _option(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=len, reverse=True))
    if option.secondary_opts:
        return names.replace("--", "--[no-]", 1)
    return names if option.is_flag else f"{names} {option.metavar or option.name.upper()}"


def _meaning(option: Any) -> str:
    parts = [option.help or "", "[required]" * option.required, _default(option.default)]
    return " ".join(filter(None, parts))


def _default(value: object) -> str:
    """The default as text; without a space, so that no line breaks inside it."""
    match value:
        case None | False | "":
            return ""
        case True:
            return "[default=on]"
        case float():
            return f"[default={value:g}]"
        case int() | str() | Path():
            return f"[default={value}]"
        case _:
            return ""
