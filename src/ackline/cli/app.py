"""The click application: its commands, their common options, and how errors are printed."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import click

from ackline.cli.exits import PIPE_CLOSED, USAGE, discard_output, error_message, exit_code
from ackline.cli.session import DEFAULT_STORE, CommonOptions, Session

F = TypeVar("F", bound=Callable[..., Any])

COMMANDS = {
    "Getting started": {"demo": "commands.demo"},
    "Running": {
        "enqueue": "commands.enqueue",
        "worker": "commands.worker",
        "relay": "commands.relay",
        "serve": "service.serve",
        "token": "service.token",
        "webhook": "service.webhook",
    },
    "Inspecting": {
        "queues": "commands.queues",
        "workers": "commands.queues",
        "list": "commands.jobs",
        "export": "commands.jobs",
        "show": "commands.show",
        "events": "commands.events",
        "readers": "commands.readers",
        "schedules": "commands.schedules",
        "top": "commands.top",
        "keys": "commands.keys",
        "doctor": "commands.doctor",
    },
    "Operating": {
        "pause": "commands.queues",
        "resume": "commands.queues",
        "cancel": "commands.job_actions",
        "redrive": "commands.job_actions",
        "edit": "commands.job_actions",
        "move": "commands.job_actions",
        "purge": "commands.job_actions",
        "drop": "commands.job_actions",
        "recover": "commands.job_actions",
        "migrate": "commands.migrate",
    },
    "Benchmark": {"bench": "commands.bench"},
    "Spark": {"pipeline": "pipeline"},
}
"""The commands in the order of the help, and the module that registers each."""

SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}


class Commands(click.Group):
    """A group whose commands are imported only when they are used."""

    def __init__(self, *arguments: Any, table: Mapping[str, Mapping[str, str]], **options: Any):
        super().__init__(*arguments, **options)
        self._table = table
        self._modules = {name: module for names in table.values() for name, module in names.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """List the commands in the order of the table."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command; if there is none, load all, so that click can suggest a similar one."""
        if cmd_name in self._modules:
            self._import(cmd_name)
        else:
            self.load()
        return super().get_command(ctx, cmd_name)

    def load(self) -> Self:
        """Import the modules of all commands."""
        for name in self._modules:
            self._import(name)
        return self

    def _import(self, name: str) -> None:
        importlib.import_module(f"ackline.cli.{self._modules[name]}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings."""
        for heading, names in self._table.items():
            found = {name: self.get_command(ctx, name) for name in names}
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (f"{name:<8}", one.get_short_help_str(formatter.width))
                        for name, one in found.items()
                        if one is not None
                    ]
                )


def _show_version(context: click.Context, _option: click.Parameter, requested: bool) -> None:
    if requested:
        from ackline.cli.output.versions import ackline_version

        click.echo(f"ackline {ackline_version()}")
        context.exit()


COMMON_OPTIONS = [
    click.Option(
        ["--store"],
        metavar="URL",
        help="URL of the store, or path of a SQLite file (default: ACKLINE_STORE, or "
        f"{DEFAULT_STORE}).",
    ),
    click.Option(["--tenant"], help="Tenant of the queues."),
    click.Option(["--json"], is_flag=True, help="Print JSON, for programs."),
    click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
]
"""Options that every command accepts, before or after its name."""


@click.group(cls=Commands, table=COMMANDS, context_settings=SETTINGS)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
@click.pass_context
def app(context: click.Context, /, **common: Any) -> None:
    """A reliable job queue: enqueue, run, inspect and operate jobs.

    Try `ackline demo` first. Exit codes: 0 success, 1 refused or failed, 2 usage error, 3 store
    unavailable.
    """
    context.obj = CommonOptions(**common)


app.params += COMMON_OPTIONS


def command(
    name: str, *, creates_store: bool = False, group: click.Group = app
) -> Callable[[F], F]:
    """Register a command whose first parameter is its `Session`.

    `creates_store` lets it create a missing store; `group` is the parent command.
    """

    def register(function: F) -> F:
        @functools.wraps(function)
        def run(**values: Any) -> None:
            given = CommonOptions(
                **{option.name: values.pop(option.name) for option in COMMON_OPTIONS}
            )
            before_command = click.get_current_context().obj or CommonOptions()
            _run_with_errors(function, given.with_defaults(before_command), creates_store, values)

        made = click.command(name, help=help_of(function))(run)
        made.params += COMMON_OPTIONS
        group.add_command(made)
        return function

    return register


def help_of(function: Callable[..., Any]) -> str:
    """The docstring of a command, with its examples marked so that click does not wrap them."""
    return re.sub(r"(?<=\n\n)(?=ackline )", "\b\n", inspect.getdoc(function) or "")


def _run_with_errors(
    function: Callable[..., Any], common: CommonOptions, creates_store: bool, values: dict[str, Any]
) -> None:
    try:
        session = Session(common, creates_store=creates_store)
        try:
            function(session, **values)
            sys.stdout.flush()
        finally:
            session.close()
    except (click.exceptions.Exit, click.ClickException, click.Abort):
        raise
    except (Exception, KeyboardInterrupt) as error:
        code = exit_code(error)
        if code == PIPE_CLOSED:
            discard_output()
        elif common.debug and isinstance(error, Exception):
            traceback.print_exc()
        _print_error(error_message(error))
        raise click.exceptions.Exit(code) from None


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    try:
        code = app.main(list(arguments), prog_name="ackline", standalone_mode=False)
    except click.Abort:
        return 1
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "ackline"
        message = error.format_message().rstrip(".")
        _print_error(f"{message[0].lower()}{message[1:]}\nTry: {path} --help")
        return USAGE
    return code if isinstance(code, int) else 0


def _print_error(message: str) -> None:
    if message:
        try:
            click.echo(f"{click.style('ackline: ', 'red', bold=True)}{message}", err=True)
        except BrokenPipeError:
            discard_output()
