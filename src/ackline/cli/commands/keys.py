"""`ackline keys`: keys that jobs left when they were moved to the DLQ."""

from __future__ import annotations

import click
import msgspec
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.exits import CommandError
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import safe
from ackline.cli.session import Session
from ackline.stores.contract import KeyValue

MAX_CHARACTERS = 200
"""Characters of a value in the table; --json prints all of it."""


@command("keys")
@click.argument("prefix", nargs=-1, help="The first parts of the keys.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, metavar="N", help="Maximum number of keys."
)
@click.option("--delete", is_flag=True, help="Delete the key instead of listing keys.")
def keys(session: Session, prefix: tuple[str, ...], limit: int, delete: bool) -> None:
    """List the keys that jobs left when they were moved to the DLQ.

    A job that was enqueued with keys_if_undelivered leaves its payload under each of them.
    """
    if delete:
        if not session.queues.delete_key(*prefix):
            raise CommandError(f"no key {' / '.join(map(safe, prefix)) or '(empty)'}")
        session.print_json({"deleted": prefix}) if session.json else session.print("deleted")
        return
    found = session.queues.read_keys(*prefix, limit=limit)
    if session.json:
        for entry in found:
            session.print_json({"key": entry.key, "value": _value(entry), "version": entry.version})
        return
    if not found:
        beginning = "/".join(map(safe, prefix))
        session.print(f"no key begins with {beginning!r}" if prefix else "no keys", "dim")
        return
    table = new_table(
        "key", "value", shrinkable=[("value", 24), ("key", 12)], fold=["value", "key"]
    )
    for entry in found:
        shown = safe(entry.value[:MAX_CHARACTERS].decode(errors="replace"))
        more = " …" if len(entry.value) > MAX_CHARACTERS else ""
        table.add_row(Text(" / ".join(map(safe, entry.key)), "bold"), shown + more)
    session.print(table)


def _value(entry: KeyValue) -> object:
    """The value as JSON, or in base64 if it is not JSON."""
    try:
        return msgspec.json.decode(entry.value)
    except msgspec.DecodeError:
        return {"base64": entry.value}
