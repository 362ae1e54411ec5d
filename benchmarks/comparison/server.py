"""The server that all compared queues use, and how it measures their costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, Self

Figures = dict[str, float]


class BenchmarkServer(AbstractContextManager["BenchmarkServer"], Protocol):
    """A private server."""

    @property
    def columns(self) -> Mapping[str, str]:
        """The costs per job that it measures: figure → head of its column."""

    @property
    def url(self) -> str: ...

    @property
    def name(self) -> str:
        """What it is, with its version."""

    @property
    def durability(self) -> str:
        """What an answered job survives on it."""

    def __enter__(self) -> Self: ...

    def empty(self) -> None:
        """Delete everything."""

    def usage(self) -> Figures:
        """What it has used since its start, once the last program's connections are gone."""

    def costs(self, measure: str, used: Figures, jobs: int) -> Iterator[Figures]:
        """The costs of a measure, from what was used in the meantime."""
