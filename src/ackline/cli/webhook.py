"""`ackline webhook …`: the URLs that the service notifies of events."""

from __future__ import annotations

import importlib
from typing import Any

import click
import msgspec
from rich.text import Text

from ackline.cli import values
from ackline.cli.app import app, command
from ackline.cli.exits import Refusal
from ackline.cli.session import Session
from ackline.cli.tables import new_table
from ackline.cli.words import plain
from ackline.errors import MissingExtra
from ackline.events import Act
from ackline.job import State
from ackline.limits import require_url


@app.group()
def webhook() -> None:
    """URLs that the service notifies of events."""


id_argument = click.argument("id", help="As `ackline webhook list` shows it.")


@command("create", creates=True, group=webhook)
@click.argument("url", help="Where to send what happens.")
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
    help=f"Only what leads to this state: {', '.join(State)}. Can be repeated.",
)
@click.option("--queue", multiple=True, help="Only of this queue. Can be repeated.")
@click.option("--kind", multiple=True, help="Only jobs of this kind. Can be repeated.")
def create(
    session: Session,
    url: str,
    act: tuple[Act, ...],
    state: tuple[State, ...],
    queue: tuple[str, ...],
    kind: tuple[str, ...],
) -> None:
    """Notify a URL of events, signed with a secret that is shown once.

    The webhook is of the tenant that --tenant names. `ackline serve` makes the deliveries.

    ackline webhook create https://example.com/hook --to completed --to failed
    """
    require_url("url", url)
    store = session.queues.store
    # An option that was not given is an empty list here, and means no limit.
    limits = {"acts": act or None, "states": state or None, "queues": queue or None}
    made = _module("webhook").new_webhook(
        session.tenant,
        url,
        store.info(),
        **_module("webhook").filters({**limits, "kinds": kind or None}),
    )
    _module("book").add(store, made)
    _show_secret(session, made)


@command("list", group=webhook)
def list_webhooks(session: Session) -> None:
    """Show the webhooks of a tenant; their secrets stay hidden."""
    found = _module("book").read_of(session.queues.store, session.tenant)
    if session.json:
        for hook in found:
            session.document(_document(hook))
        return
    if not found:
        session.say("no webhooks", "dim")
        return
    table = new_table(
        "id",
        "url",
        "told of",
        "active",
        spare=[("told of", 16), ("url", 16)],
        fold=["told of", "url"],
    )
    for hook in found:
        words = [plain(hook.url or "what each job names"), _told_of(hook)]
        table.add_row(Text(hook.id, "bold"), *words, "yes" if hook.active else "no")
    session.say(table)


@command("rotate", group=webhook)
@id_argument
@click.option(
    "--overlap",
    type=values.seconds,
    default="1d",
    metavar="SPAN",
    help="How long the old secret is good as well.",
)
def rotate(session: Session, id: str, overlap: float) -> None:
    """Give a webhook a new secret. For a while, messages are signed with both.

    `callbacks` is the webhook of the URLs that jobs name themselves.
    """
    store = session.queues.store
    info = store.info()
    if id == _module("webhook").CALLBACKS:
        own = _module("webhook").callbacks_of(session.tenant, info.cursor, info.now)
        _module("book").add(store, own)

    def alter(found: Any) -> Any:
        secrets = _module("signing").rotated(found.secrets, info.now, overlap)
        return msgspec.structs.replace(found, secrets=secrets)

    changed = _module("book").change(store, session.tenant, id, alter)
    if changed is None:
        raise Refusal(f"tenant {session.tenant} has no webhook {id!r}")
    _show_secret(session, changed)


@command("delete", group=webhook)
@id_argument
def delete(session: Session, id: str) -> None:
    """Delete a webhook; deliveries that have not been made are dropped."""
    if id == _module("webhook").CALLBACKS:
        raise Refusal("the callbacks cannot be deleted: jobs that name no URL call none")
    if not _module("book").delete(session.queues.store, session.tenant, id):
        raise Refusal(f"tenant {session.tenant} has no webhook {id!r}")
    session.document({"deleted": id}) if session.json else session.say("deleted")


def _show_secret(session: Session, made: Any) -> None:
    secret = made.secrets[0].text
    if session.json:
        session.document({**_document(made), "secret": secret})
        return
    session.line(secret)
    session.notice(f"Shown once. It signs the messages of {made.id}.")


def _document(hook: Any) -> dict[str, Any]:
    filters = {name: sorted(getattr(hook, name) or ()) for name in _module("webhook").FILTERS}
    return {"id": hook.id, "url": hook.url, "active": hook.active, **filters}


def _told_of(hook: Any) -> str:
    words = [
        plain(str(word))
        for name in _module("webhook").FILTERS
        for word in sorted(getattr(hook, name) or ())
    ]
    return ", ".join(words) or ("ends of jobs" if hook.url is None else "everything")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"ackline.service.webhooks.{name}")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"ackline webhook (no module {error.name!r})", "service") from None
