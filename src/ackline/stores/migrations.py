"""Numbered migrations that bring a store's data to the schema of this release.

Each is a file such as `migrations/0001_start.sql` of the store's package. A migration that older
releases can work with says so on a line of its own, `-- compatible from: 1`: code for schema 1 may
keep running during and after it. So a release first adds what it needs with such a migration
(expand), and a later release removes what is no longer used (contract).
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Protocol, runtime_checkable

import msgspec

_COMPATIBLE = re.compile(r"^-- compatible from: (\d+)$", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One migration; its number is the schema that it leads to."""

    number: int
    name: str
    sql: str
    compatible_from: int
    """The oldest schema whose code can still use the data afterwards."""


class MigrationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The schema of a store's data, and the migrations that are missing, or that were run."""

    location: str
    schema: int
    """The schema before these migrations; 0 for an empty store."""
    newest: int
    steps: tuple[Migration, ...]


@runtime_checkable
class Migratable(Protocol):
    """A store whose data has a schema. Both methods work before it is opened."""

    def pending_migrations(self) -> MigrationPlan:
        """The missing migrations, with the SQL that would run; changes nothing."""

    def migrate(self) -> MigrationPlan:
        """Run the missing migrations and return them. Safe to call in several processes."""


def read_migrations(package: str) -> tuple[Migration, ...]:
    """All migrations of a store, in order."""
    folder = resources.files(package) / "migrations"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    steps = tuple(_migration(file.name, file.read_text(encoding="utf-8")) for file in files)
    if [step.number for step in steps] != list(range(1, len(steps) + 1)):
        raise ValueError(f"the migrations of {package} are not numbered from 1 without a gap")
    return steps


def _migration(name: str, text: str) -> Migration:
    number = int(name[:4])
    declared = _COMPATIBLE.search(text)
    compatible_from = int(declared[1]) if declared else number
    return Migration(number=number, name=name, sql=text, compatible_from=compatible_from)
