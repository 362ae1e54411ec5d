"""`ackline migrate`: bring a store's data to the schema that this release uses."""

from __future__ import annotations

import click

from ackline.cli.app import command
from ackline.cli.output.text import pluralize
from ackline.cli.session import Session
from ackline.stores.migrations import Migratable, MigrationPlan
from ackline.stores.registry import store_from_url


@command("migrate")
@click.option("--dry-run", is_flag=True, help="Only print the SQL that would run.")
def migrate(session: Session, dry_run: bool) -> None:
    """Make or upgrade the tables of a store.

    A store does so by itself when it is opened, if it may. Run this where it may not
    (?migrate=no, or a user without the right), or before a new release is started.

    Safe while workers run, and safe to run again, or several times at once. Redis and memory
    have no tables: for them it looks whether the store fits this release.
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
    # Notices go to standard error, so that the SQL can be piped into the database as it is.
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
