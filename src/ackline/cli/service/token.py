"""`ackline token …`: API keys of the service, and tokens for tests."""

from __future__ import annotations

import datetime
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.text import Text

from ackline.cli.app import app, command
from ackline.cli.exits import CommandError
from ackline.cli.options import values
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import safe
from ackline.cli.session import Session
from ackline.core.errors import MissingExtra

if TYPE_CHECKING:
    from ackline.service.auth.credentials import ApiKey


@app.group()
def token() -> None:
    """Manage API keys of the service, and create test tokens."""


scope_option = click.option(
    "--scope",
    multiple=True,
    required=True,
    type=click.Choice(("produce", "consume", "read", "admin")),
    help="What it allows. Can be repeated.",
)
queue_option = click.option("--queue", multiple=True, help="Only this queue. Can be repeated.")
kind_option = click.option("--kind", multiple=True, help="Only jobs of this kind. Can be repeated.")
operator_option = click.option(
    "--operator", is_flag=True, help="Allow reading the metrics of all tenants at /metrics."
)


@command("create", creates_store=True, group=token)
@click.argument("name", help="Who uses the key; the journal records this name.")
@scope_option
@queue_option
@kind_option
@operator_option
@click.option("--expires", type=values.seconds, metavar="SPAN", help="Lifetime of the key.")
@click.option(
    "--for-file", is_flag=True, help="Do not store the key: print the entry for a settings file."
)
def create(
    session: Session,
    name: str,
    scope: tuple[str, ...],
    queue: tuple[str, ...],
    kind: tuple[str, ...],
    operator: bool,
    expires: float | None,
    for_file: bool,
) -> None:
    """Create an API key. It is shown once; only its hash is stored.

    The key belongs to the tenant given by --tenant, and is kept in the store.

    ackline token create billing --tenant acme --scope produce --queue email
    """
    keys = _api_keys()
    text, id = keys.new_key()
    limits = {"queues": queue, "kinds": kind, "operator": operator}
    entry = {"id": id, "hash": _credentials().hash_of(text), "name": name, "tenant": session.tenant}
    entry |= {"scopes": scope} | {name: value for name, value in limits.items() if value}
    if expires is not None:
        entry["expires"] = _expiry(expires).isoformat()
    key = msgspec.convert(entry, _credentials().ApiKey)
    if not for_file:
        keys.store_key(session.queues.store, key)
    if session.json:
        session.print_json({"key": text, **entry})
        return
    session.print_line(text)
    session.notice("Shown once. Send it as `Authorization: Bearer …`.")
    if for_file:
        session.notice(
            f"Add this to the file of `ackline serve --config`:\n\n{_toml('api_keys', entry)}"
        )
    else:
        session.notice(
            f"Its hash is in the store: start the service with --stored-keys.\n"
            f"To revoke it: ackline token revoke {id}"
        )


@command("list", group=token)
def list_tokens(session: Session) -> None:
    """List the API keys in the store, of all tenants."""
    found = _api_keys().list_keys(session.queues.store)
    if session.json:
        for key in found:
            session.print_json({n: v for n, v in msgspec.to_builtins(key).items() if n != "hash"})
        return
    if not found:
        session.print("No API keys in this store.")
        return
    columns = ("id", "name", "tenant", "scopes", "restricted to", "expires")
    table = new_table(
        *columns,
        shrinkable=[("restricted to", 8), ("scopes", 8), ("name", 8), ("tenant", 8)],
        fold=["restricted to", "scopes", "name", "tenant"],
    )
    for key in found:
        ends = "never" if key.expires is None else f"{key.expires:%Y-%m-%d %H:%M}"
        cells = [
            safe(key.name),
            safe(key.tenant),
            " ".join(sorted(key.scopes)),
            _restrictions(key),
            ends,
        ]
        table.add_row(Text(key.id, "bold"), *cells)
    session.print(table)


@command("revoke", group=token)
@click.argument("id", help="The key's id, as `ackline token list` shows it.")
def revoke(session: Session, id: str) -> None:
    """Revoke an API key; within seconds it is no longer accepted."""
    if not _api_keys().revoke_key(session.queues.store, id):
        raise CommandError(f"no API key {id!r} in this store")
    session.print_json({"revoked": id}) if session.json else session.print("revoked")


@command("test", group=token)
@scope_option
@queue_option
@kind_option
@operator_option
@click.option(
    "--expires", type=values.seconds, default="1h", metavar="SPAN", help="Lifetime of the token."
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    default=Path("ackline-test-issuer"),
    help="Directory of the key pair; created if it does not exist.",
)
def create_test_token(
    session: Session,
    scope: tuple[str, ...],
    queue: tuple[str, ...],
    kind: tuple[str, ...],
    operator: bool,
    expires: float,
    directory: Path,
) -> None:
    """Create a test token (JWT), as an issuer would.

    The first call creates a key pair. The private key stays in the directory, readable only by
    you.

    ackline token test --tenant acme --scope produce --scope read
    """
    issuer = _dev_issuer()
    pair = issuer.KeyPair.at(directory)
    scopes = [*scope, *(["operator"] if operator else [])]
    claims = {"tenant": session.tenant, "scope": " ".join(scopes), "queues": queue, "kinds": kind}
    given = {name: value for name, value in claims.items() if value}
    text = pair.sign(given, time.time() + expires)
    if session.json:
        session.print_json({"token": text})
        return
    session.print_line(text)
    session.notice(
        f"Valid for {expires:g} s. Send it as `Authorization: Bearer …`.\n"
        f"Add this to the file of `ackline serve --config`:\n\n{_toml('issuers', pair.settings)}"
    )


def _expiry(seconds: float) -> datetime.datetime:
    expires_at = datetime.datetime.fromtimestamp(time.time() + seconds, datetime.UTC)
    return expires_at.replace(microsecond=0)


def _restrictions(key: ApiKey) -> str:
    restrictions = [f"queue {safe(name)}" for name in sorted(key.queues or ())]
    restrictions += [f"kind {safe(name)}" for name in sorted(key.kinds or ())]
    return ", ".join([*restrictions, "operator"] if key.operator else restrictions)


def _toml(table: str, entry: dict[str, Any]) -> str:
    """A TOML table; strings, lists and booleans are written as in JSON."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in entry.items()]
    return "\n".join([f"[[{table}]]", *lines])


def _api_keys() -> Any:
    return _service("auth.api_keys")


def _credentials() -> Any:
    return _service("auth.credentials")


def _dev_issuer() -> Any:
    return _service("auth.dev_issuer")


def _service(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"ackline.service.{module}")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"ackline token (no module {error.name!r})", "service") from None
