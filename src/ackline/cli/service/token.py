"""`ackline token …`: credentials for the service: API keys, and tokens to try it with."""

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
from ackline.cli.exits import Refusal
from ackline.cli.options import values
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import safe
from ackline.cli.session import Session
from ackline.core.errors import MissingExtra

if TYPE_CHECKING:
    from ackline.service.auth.credentials import ApiKey


@app.group()
def token() -> None:
    """API keys and test tokens for the service."""


scope_option = click.option(
    "--scope",
    multiple=True,
    required=True,
    type=click.Choice(("produce", "consume", "read", "admin")),
    help="What it may. Can be repeated.",
)
queue_option = click.option("--queue", multiple=True, help="Only this queue. Can be repeated.")
kind_option = click.option("--kind", multiple=True, help="Only jobs of this kind. Can be repeated.")
operator_option = click.option(
    "--operator", is_flag=True, help="It sees the figures of all tenants in /metrics."
)


@command("create", creates_store=True, group=token)
@click.argument("name", help="Whose key it is, as the journal will call it.")
@scope_option
@queue_option
@kind_option
@operator_option
@click.option("--expires", type=values.seconds, metavar="SPAN", help="For how long it is good.")
@click.option("--for-file", is_flag=True, help="Keep nothing: print what a settings file needs.")
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
    """Make an API key for a machine. It is shown once; only its hash is kept.

    The key is of the tenant that --tenant names, and is kept in the store.

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
        keys.keep_key(session.queues.store, key)
    if session.json:
        session.print_json({"key": text, **entry})
        return
    session.print_line(text)
    session.notice("Shown once. Send it as `Authorization: Bearer …`.")
    if for_file:
        session.notice(f"Into the file of `ackline serve --config`:\n\n{_toml('api_keys', entry)}")
    else:
        session.notice(
            f"Its hash is in the store: start the service with --stored-keys.\n"
            f"To take it back: ackline token revoke {id}"
        )


@command("list", group=token)
def list_tokens(session: Session) -> None:
    """Show the API keys that are kept in the store, of all tenants."""
    found = _api_keys().list_keys(session.queues.store)
    if session.json:
        for key in found:
            session.print_json({n: v for n, v in msgspec.to_builtins(key).items() if n != "hash"})
        return
    if not found:
        session.print("no API keys in this store", "dim")
        return
    columns = ("id", "name", "tenant", "scopes", "only", "expires")
    table = new_table(
        *columns,
        shrinkable=[("only", 8), ("scopes", 8), ("name", 8), ("tenant", 8)],
        fold=["only", "scopes", "name", "tenant"],
    )
    for key in found:
        ends = "never" if key.expires is None else f"{key.expires:%Y-%m-%d %H:%M}"
        words = [
            safe(key.name),
            safe(key.tenant),
            " ".join(sorted(key.scopes)),
            _restrictions(key),
            ends,
        ]
        table.add_row(Text(key.id, "bold"), *words)
    session.print(table)


@command("revoke", group=token)
@click.argument("id", help="As `ackline token list` shows it.")
def revoke(session: Session, id: str) -> None:
    """Take an API key back: within seconds it opens nothing any more."""
    if not _api_keys().revoke_key(session.queues.store, id):
        raise Refusal(f"there is no API key {id!r} in this store")
    session.print_json({"revoked": id}) if session.json else session.print("revoked")


@command("test", group=token)
@scope_option
@queue_option
@kind_option
@operator_option
@click.option(
    "--expires", type=values.seconds, default="1h", metavar="SPAN", help="For how long it is good."
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    default=Path("ackline-test-issuer"),
    help="Where the key pair is, or is made.",
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
    """Make a test token (JWT), as an issuer would.

    The first call makes a key pair: the private key stays in the directory, readable by you only.

    ackline token test --tenant acme --scope produce --scope read
    """
    issuer = _dev_issuer()
    pair = issuer.KeyPair.at(directory)
    words = [*scope, *(["operator"] if operator else [])]
    claims = {"tenant": session.tenant, "scope": " ".join(words), "queues": queue, "kinds": kind}
    given = {name: value for name, value in claims.items() if value}
    text = pair.sign(given, time.time() + expires)
    if session.json:
        session.print_json({"token": text})
        return
    session.print_line(text)
    session.notice(
        f"Good for {expires:g} s. Send it as `Authorization: Bearer …`.\n"
        f"Into the file of `ackline serve --config`:\n\n{_toml('issuers', pair.settings)}"
    )


def _expiry(seconds: float) -> datetime.datetime:
    when = datetime.datetime.fromtimestamp(time.time() + seconds, datetime.UTC)
    return when.replace(microsecond=0)


def _restrictions(key: ApiKey) -> str:
    words = [f"queue {safe(name)}" for name in sorted(key.queues or ())]
    words += [f"kind {safe(name)}" for name in sorted(key.kinds or ())]
    return ", ".join([*words, "operator"] if key.operator else words)


def _toml(table: str, entry: dict[str, Any]) -> str:
    """A table of a settings file; strings, lists and booleans are the same in JSON and TOML."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in entry.items()]
    return "\n".join([f"[[{table}]]", *lines])


def _api_keys() -> Any:
    return _service("auth.api_keys")


def _credentials() -> Any:
    return _service("auth.credentials")


def _dev_issuer() -> Any:
    return _service("auth.trial_issuer")


def _service(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"ackline.service.{module}")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"ackline token (no module {error.name!r})", "service") from None
