"""The server that all entries of a field run on, and how it measures their costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol, Self

Figures = dict[str, float]


class Ground(AbstractContextManager["Ground"], Protocol):
    """A private server."""

    columns: dict[str, str]
    """What it can measure of each job's cost: figure → head of its column."""

    @property
    def url(self) -> str: ...

    @property
    def name(self) -> str:
        """What it is, with its version."""

    @property
    def durability(self) -> str:
        """When an answered job is safe on it."""

    def __enter__(self) -> Self: ...

    def empty(self) -> None:
        """Forget everything."""

    def usage(self) -> Figures:
        """What it has used since its start, once the last program's connections are gone."""

    def costs(self, measure: str, used: Figures, jobs: int) -> Iterator[Figures]:
        """The costs of a measure, from what was used in the meantime."""
