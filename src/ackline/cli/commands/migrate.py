"""`ackline migrate`: create or upgrade the schema of a store."""

from __future__ import annotations

import click

from ackline.cli.app import command
from ackline.cli.output.text import pluralize
from ackline.cli.session import Session
from ackline.stores.migrations import Migratable, MigrationPlan
from ackline.stores.registry import store_from_url


@command("migrate")
@click.option("--dry-run", is_flag=True, help="Print the SQL that would run, and change nothing.")
def migrate(session: Session, dry_run: bool) -> None:
    """Create or upgrade the tables of a store.

    Opening a store does this, too, if it is allowed to. Run this command where it is not
    (?migrate=no, or a database user without the privilege), or before a new release starts.

    It is safe while workers run, and safe to repeat or to run concurrently. Redis and memory have
    no tables: for them, it checks that the store fits this release.
    """
    store = store_from_url(session.url)
    if not isinstance(store, Migratable):
        _without_tables(session)
    elif dry_run:
        _print_pending(session, store.pending_migrations())
    else:
        _print_applied(session, store.migrate())


def _without_tables(session: Session) -> None:
    info = session.queues.info()
    if session.json:
        found = MigrationPlan(
            location=info.location, schema=info.schema, newest=info.schema, steps=()
        )
        _document(session, found, applied=False)
    else:
        session.print(f"schema {info.schema}: nothing to migrate")


def _print_pending(session: Session, found: MigrationPlan) -> None:
    if session.json:
        _document(session, found, applied=False)
        return
    # Notices go to standard error, so that the SQL can be piped into a database.
    session.notice(f"store {found.location}")
    session.notice(_summary(found))
    for step in found.steps:
        session.print_line(f"-- {step.name}\n{step.sql}")


def _print_applied(session: Session, found: MigrationPlan) -> None:
    if session.json:
        _document(session, found, applied=True)
        return
    session.notice(f"store {found.location}")
    session.print(_summary(found))
    for step in found.steps:
        session.print(f"applied {step.name}", "green")


def _summary(found: MigrationPlan) -> str:
    if not found.steps:
        return f"schema {found.schema}: nothing to migrate"
    return f"schema {found.schema} → {found.newest}, {pluralize(len(found.steps), 'migration')}"


def _document(session: Session, found: MigrationPlan, *, applied: bool) -> None:
    session.print_json(
        {
            "location": found.location,
            "schema": max(found.schema, found.newest) if applied else found.schema,
            "newest": found.newest,
            "applied" if applied else "pending": [
                {"number": step.number, "name": step.name, "sql": step.sql} for step in found.steps
            ],
        }
    )
