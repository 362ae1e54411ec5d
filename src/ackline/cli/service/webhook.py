"""`ackline webhook …`: URLs that the service notifies of events."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from ackline.cli.app import app, command
from ackline.cli.options import values
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import safe
from ackline.cli.session import Session
from ackline.core.errors import MissingExtra
from ackline.core.events import Act
from ackline.core.job import State


@app.group()
def webhook() -> None:
    """Manage the URLs that the service notifies of events."""


id_argument = click.argument("id", help="The webhook's id, as `ackline webhook list` shows it.")


@command("create", creates_store=True, group=webhook)
@click.argument("url", help="Where to send events.")
@click.option(
    "--act",
    multiple=True,
    type=values.OneOf(Act),
    metavar="ACT",
    help=f"Only this act: {', '.join(Act)}. Can be repeated.",
)
@click.option(
    "--to",
    "state",
    multiple=True,
    type=values.OneOf(State),
    metavar="STATE",
    help=f"Only events that lead to this state: {', '.join(State)}. Can be repeated.",
)
@click.option("--queue", multiple=True, help="Only this queue. Can be repeated.")
@click.option("--kind", multiple=True, help="Only jobs of this kind. Can be repeated.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings file of the service: it limits how many webhooks there may be, and their URLs.",
)
def create(
    session: Session,
    url: str,
    act: tuple[Act, ...],
    state: tuple[State, ...],
    queue: tuple[str, ...],
    kind: tuple[str, ...],
    config: Path | None,
) -> None:
    """Notify a URL of events.

    The messages are signed with a secret that is shown once. The webhook belongs to the tenant
    given by --tenant. `ackline serve` sends the deliveries.

    ackline webhook create https://example.com/hook --to completed --to failed
    """
    # An option that was not given is an empty list here, and does not filter.
    filters = {"acts": act or None, "states": state or None, "queues": queue or None}
    made = _webhooks(session, config).create(url, {**filters, "kinds": kind or None})
    _show_secret(session, made)


@command("list", group=webhook)
def list_webhooks(session: Session) -> None:
    """List the webhooks of a tenant, without their secrets."""
    found = _webhooks(session).all()
    if session.json:
        for hook in found:
            session.print_json(_module("webhooks.api").webhook_document(hook))
        return
    if not found:
        session.print("No webhooks.")
        return
    table = new_table(
        "id",
        "url",
        "events",
        "active",
        shrinkable=[("events", 16), ("url", 16)],
        fold=["events", "url"],
    )
    for hook in found:
        cells = [safe(hook.url or "callback URL of each job"), _filters_text(hook)]
        table.add_row(Text(hook.id, "bold"), *cells, "yes" if hook.active else "no")
    session.print(table)


@command("rotate", group=webhook)
@id_argument
@click.option(
    "--overlap",
    type=values.seconds,
    default="1d",
    metavar="SPAN",
    help="How long the old secret stays valid.",
)
def rotate(session: Session, id: str, overlap: float) -> None:
    """Give a webhook a new secret. For a while, messages are signed with both.

    The webhook `callbacks` is that of the callback URLs of jobs.
    """
    _show_secret(session, _webhooks(session).rotate(id, overlap))


@command("delete", group=webhook)
@id_argument
def delete(session: Session, id: str) -> None:
    """Delete a webhook, and its deliveries that were not sent yet."""
    _webhooks(session).delete(id)
    session.print_json({"deleted": id}) if session.json else session.print("deleted")


def _show_secret(session: Session, made: Any) -> None:
    document = _module("webhooks.api").webhook_document(made, with_secret=True)
    if session.json:
        session.print_json(document)
        return
    session.print_line(document.secret)
    session.notice(f"Shown once. It signs the messages of webhook {made.id}.")


def _filters_text(hook: Any) -> str:
    filters = [
        safe(str(value))
        for name in _module("webhooks.webhook").FILTERS
        for value in sorted(getattr(hook, name) or ())
    ]
    return ", ".join(filters) or ("finished jobs" if hook.url is None else "all")


def _webhooks(session: Session, config: Path | None = None) -> Any:
    settings = _module("settings").load(config).webhooks
    return _module("webhooks.api").WebhookService(session.queues.store, session.tenant, settings)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"ackline.service.{name}")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"ackline webhook (no module {error.name!r})", "service") from None
