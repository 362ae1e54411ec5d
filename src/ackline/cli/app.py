"""The application: options that every command has, and errors in one or two lines."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from ackline.cli.exits import PIPE_CLOSED, USAGE, code_for, leave_pipe, message_for
from ackline.cli.help import Command, Group
from ackline.cli.session import DEFAULT_STORE, Common, Session

F = TypeVar("F", bound=Callable[..., Any])

EVERYWHERE = "Everywhere"

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        rich_help_panel=EVERYWHERE,
        help="A store's URL, or the path of a SQLite file. "
        f"Else ACKLINE_STORE, else {DEFAULT_STORE}.",
    ),
]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", rich_help_panel=EVERYWHERE, help="Whose queues."),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", rich_help_panel=EVERYWHERE, help="Answer in JSON, for programs."),
]
DebugOption = Annotated[
    bool,
    typer.Option("--debug", rich_help_panel=EVERYWHERE, help="Show the traceback of an error."),
]

COMMON = {"store": StoreOption, "tenant": TenantOption, "json": JsonOption, "debug": DebugOption}

HELP = """A reliable job queue: put jobs in, run them, look at them, act on them.

Try [bold]ackline demo[/bold] first. Exit codes: 0 done, 1 it did not happen,
2 the command cannot work, 3 the store cannot be used."""

app = typer.Typer(
    name="ackline",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    cls=Group,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from ackline.cli.versions import ackline_version

        typer.echo(f"ackline {ackline_version()}")
        raise typer.Exit


@app.callback(help=HELP)
def common_options(
    context: typer.Context,
    store: StoreOption = None,
    tenant: TenantOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Keep the options given before the command; the application's help is `HELP`."""
    context.obj = Common(store, tenant, json, debug)


def command(
    name: str,
    *,
    panel: str,
    creates: bool = False,
    hidden: bool = False,
    group: typer.Typer | None = None,
) -> Callable[[F], F]:
    """Register a command whose first parameter is its `Session`.

    The common options are added here, so that they may also follow the command's name.
    `creates` lets it create a missing store file; `group` is the parent command.
    """

    def register(function: F) -> F:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        context = _parameter("context", typer.Context, inspect.Parameter.empty)
        shared = [
            _parameter(option, annotation, None if option in ("store", "tenant") else False)
            for option, annotation in COMMON.items()
        ]

        @functools.wraps(function)
        def run(context: typer.Context, **values: Any) -> None:
            given = Common(**{option: values.pop(option) for option in COMMON})
            wider = context.obj if isinstance(context.obj, Common) else Common()
            _guard(function, given.over(wider), creates, values)

        # Keyword-only, because some of the command's own parameters have no default.
        parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in (context, *own, *shared)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        (group or app).command(name, cls=Command, rich_help_panel=panel, hidden=hidden)(run)
        return function

    return register


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _guard(
    function: Callable[..., Any], common: Common, creates: bool, values: dict[str, Any]
) -> None:
    try:
        session = Session(common, creates=creates)
        try:
            function(session, **values)
            sys.stdout.flush()
        finally:
            session.close()
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except (Exception, KeyboardInterrupt) as error:
        code = code_for(error)
        if code == PIPE_CLOSED:
            leave_pipe()
        elif common.debug and isinstance(error, Exception):
            traceback.print_exc()
        _complain(message_for(error))
        raise typer.Exit(code) from None


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    from ackline.cli.commands import load_all

    load_all()
    program = typer.main.get_command(app)
    try:
        code = program.main(list(arguments), prog_name="ackline", standalone_mode=False)
    except typer.Abort:
        return 1
    except Exception as error:
        # One of Typer's own errors; their class depends on its version.
        if not hasattr(error, "format_message"):
            raise
        return _explain_usage(error)
    return code if isinstance(code, int) else 0


def _explain_usage(error: Any) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "ackline"
    message = error.format_message()
    if not message.strip() or type(error).__name__ == "NoArgsIsHelpError":
        return USAGE  # the help was shown already
    message = _in_our_words(message.rstrip("."))
    _complain(f"{message[0].lower()}{message[1:]}\nTry: {path} --help")
    return USAGE


def _in_our_words(message: str) -> str:
    """Typer's message about a value, without the phrases of its validator."""
    message = message.replace("Value error, ", "").replace("Input should be", "it must be")
    return _AS_TEXT.sub("", message)


_AS_TEXT = re.compile(r", unable to parse string as an? \w+$")


def _complain(message: str) -> None:
    if message:
        console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
        try:
            console.print(Text("ackline: ", "bold red") + Text(message))
        except BrokenPipeError:
            leave_pipe()
