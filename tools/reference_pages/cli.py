"""The reference of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click
from tools.reference_pages.markdown import WRITTEN_BY, table

from ackline.cli.app import COMMON_OPTIONS, app

COMPLETION = """To complete commands and options with Tab, put this line into `~/.bashrc`:

```shell
eval "$(_ACKLINE_COMPLETE=bash_source ackline)"
```

In `~/.zshrc`, write `zsh_source`; for fish,
`_ACKLINE_COMPLETE=fish_source ackline > ~/.config/fish/completions/ackline.fish`."""


def cli_page() -> str:
    """Every command, with its arguments and options."""
    context = click.Context(app, info_name="ackline", **app.context_settings)
    parts = [
        WRITTEN_BY,
        "# The command `ackline`",
        "Also `python -m ackline`, and in a checkout `./run`.",
        COMPLETION,
        "## Common options",
        "Every command accepts these, before or after its name.",
        _options(COMMON_OPTIONS, context),
        *(_command(name, inner) for name, inner in sorted(visible_commands(context))),
    ]
    return "\n\n".join(parts) + "\n"


def visible_commands(context: click.Context) -> Iterator[tuple[str, click.Context]]:
    """All commands that the help shows; those of a group are prefixed with its name."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from ((f"{name} {sub}", found) for sub, found in visible_commands(inner))
        elif not command.hidden:
            yield name, inner


def _command(name: str, context: click.Context) -> str:
    command = context.command
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option) and p not in COMMON_OPTIONS]
    shown = [option for option in options if not option.hidden]
    words = [argument.make_metavar(context) for argument in arguments]
    usage = " ".join(["ackline", name, *words, *(["…"] * bool(shown))])
    parts = [f"## {name}", f"```text\n{usage}\n```", _help(command.help or "")]
    if arguments:
        rows = [(f"`{w}`", _cell(p.help)) for w, p in zip(words, arguments, strict=True)]
        parts.append(table(("argument", ""), rows))
    if shown:
        parts.append(_options(shown, context))
    return "\n\n".join(parts)


def _help(text: str) -> str:
    """Each paragraph on one line; examples, which a backspace marks for click, keep their lines."""
    return "\n\n".join(
        f"```text\n{part[2:]}\n```" if part.startswith("\b\n") else " ".join(part.split())
        for part in (part.strip(" \n") for part in text.split("\n\n"))
    )


def _options(options: Iterable[click.Option], context: click.Context) -> str:
    return table(("option", "default", ""), [_option(option, context) for option in options])


def _option(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if not option.is_flag:
        names += f" `{option.make_metavar(context)}`"
    default = option.get_help_extra(context).get("default")
    return names, f"`{default}`" if default else "", _cell(option.help)


def _cell(text: str | None) -> str:
    return " ".join((text or "").split())
