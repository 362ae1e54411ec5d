"""Numbered steps that bring a store's data to the schema that this release uses.

Each is a file such as `migrations/0001_start.sql` of the store's package. A step that older
releases can live with says so in a line of its own, `-- compatible from: 1`: code that knows
schema 1 may go on running during and after this step. So a release that needs more first adds it
by such a step (it expands), and a later release removes what nobody uses any more (it contracts).
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Protocol, runtime_checkable

import msgspec

_COMPATIBLE = re.compile(r"^-- compatible from: (\d+)$", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One step; its number is the schema that it leads to."""

    number: int
    name: str
    sql: str
    compatible_from: int
    """The oldest schema whose code can use the data afterwards."""


class MigrationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The schema of a store's data, and the steps that it needs, or that were taken."""

    location: str
    schema: int
    """The schema before these steps; 0 if there is none yet."""
    newest: int
    steps: tuple[Migration, ...]


@runtime_checkable
class Migratable(Protocol):
    """A store whose data has a schema of its own. Both methods work before it is opened."""

    def pending_migrations(self) -> MigrationPlan:
        """The missing steps, with the SQL that would run; nothing is changed."""

    def migrate(self) -> MigrationPlan:
        """Take the missing steps and return them. Several processes may safely do so at once."""


def read_migrations(package: str) -> tuple[Migration, ...]:
    """All steps of a store, in order."""
    folder = resources.files(package) / "migrations"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    steps = tuple(_migration(file.name, file.read_text(encoding="utf-8")) for file in files)
    if [step.number for step in steps] != list(range(1, len(steps) + 1)):
        raise ValueError(f"the migrations of {package} are not numbered from 1 on without a gap")
    return steps


def _migration(name: str, text: str) -> Migration:
    number = int(name[:4])
    declared = _COMPATIBLE.search(text)
    compatible_from = int(declared[1]) if declared else number
    return Migration(number=number, name=name, sql=text, compatible_from=compatible_from)
