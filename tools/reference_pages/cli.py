"""The reference of the command line."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import typer
from tools.reference_pages.markdown import WRITTEN_BY, table

from ackline.cli.help import is_example, paragraphs, placeholder


def cli_page() -> str:
    """Every command with its arguments and options."""
    program = _program()
    everywhere = [p for p in program.params if p.rich_help_panel == "Everywhere"]
    parts = [
        WRITTEN_BY,
        "# The command `ackline`",
        "Also `python -m ackline`, and in a checkout `./run`.",
        "## Everywhere",
        "These may stand before or behind the command.",
        _options(everywhere),
        *(_command(name, command) for name, command in visible_commands(program)),
    ]
    return "\n\n".join(parts) + "\n"


def _program() -> Any:
    app = importlib.import_module("ackline.cli.app")
    importlib.import_module("ackline.cli.commands").load_all()
    return typer.main.get_command(app.app)


def visible_commands(program: Any) -> list[tuple[str, Any]]:
    """All commands that the help shows, those of a group with its name before theirs."""
    shown = [(name, c) for name, c in program.commands.items() if not c.hidden]
    inner = [(f"{name} {sub}", c) for name, g in shown for sub, c in _commands_of(g)]
    return sorted([*((name, c) for name, c in shown if not _commands_of(c)), *inner])


def _commands_of(group: Any) -> list[tuple[str, Any]]:
    return visible_commands(group) if hasattr(group, "commands") else []


def _command(name: str, command: Any) -> str:
    own = [p for p in command.params if p.rich_help_panel != "Everywhere"]
    own = [p for p in own if not getattr(p, "hidden", False)]
    arguments = [p for p in own if p.param_type_name == "argument"]
    options = [p for p in own if p.param_type_name == "option"]
    usage = " ".join(["ackline", name, *(map(placeholder, arguments)), *(["…"] * bool(options))])
    parts = [f"## {name}", f"```text\n{usage}\n```", _help(command.help)]
    if arguments:
        rows = [(f"`{placeholder(p)}`", _cell(p.help)) for p in arguments]
        parts.append(table(("argument", ""), rows))
    if options:
        parts.append(_options(options))
    return "\n\n".join(parts)


def _help(text: str) -> str:
    return "\n\n".join(
        f"```text\n{part}\n```" if is_example(part) else part for part in paragraphs(text)
    )


def _options(parameters: Iterable[Any]) -> str:
    return table(("option", "default", ""), [_option(p) for p in parameters])


def _option(parameter: Any) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if not parameter.is_flag:
        names += f" `{parameter.metavar or parameter.name.upper()}`"
    default = parameter.default
    shown = "" if default is None or default is False or default == () else f"`{_plain(default)}`"
    return names, shown, _cell(parameter.help)


def _plain(value: Any) -> str:
    if value is True:
        return "on"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str | None) -> str:
    return " ".join((text or "").split())
