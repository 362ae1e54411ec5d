"""Figures of several processes as one: each leaves its own in a folder, and any adds them up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

PUBLISH_EVERY = 1.0
"""Seconds; so old may the figures of the other processes be."""

DEAD_AFTER = 10.0
"""Seconds without a sign: what it has done still counts, what it has open does not."""

LEAST = frozenset({"ackline_loop_lag_seconds"})
"""Not added up: it is enough if one process has run a loop of late."""


class Siblings:
    """The folder that the processes of one service share."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._mine = folder / f"{name}.metrics"

    def publish(self, text: bytes) -> None:
        """Replace what this process has left there; nobody reads half of it."""
        draft = self._mine.with_suffix(".draft")
        draft.write_bytes(text)
        draft.replace(self._mine)

    def read(self) -> Iterator[list[Metric]]:
        """The figures of the others."""
        for file in sorted(self._folder.glob("*.metrics")):
            if file != self._mine:
                alive = time.time() - file.stat().st_mtime < DEAD_AFTER
                found = text_string_to_metric_families(file.read_text())
                yield [family for family in found if alive or family.type != "gauge"]


def merge(processes: Iterable[Iterable[Metric]]) -> Iterator[Metric]:
    """One family of each name, its samples added up."""
    families: dict[str, Metric] = {}
    sums: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for family in (family for process in processes for family in process):
        families.setdefault(family.name, family)
        values = sums.setdefault(family.name, {})
        for sample in family.samples:
            if sample.name.endswith("_created"):
                continue
            place = (sample.name, tuple(sorted(sample.labels.items())))
            had = values.get(place)
            values[place] = sample.value if had is None else _add(family.name, had, sample.value)
    for name, first in families.items():
        merged = Metric(name, first.documentation, first.type)
        for (sample_name, labels), value in sums[name].items():
            merged.add_sample(sample_name, dict(labels), value)
        yield merged


def _add(family: str, one: float, other: float) -> float:
    return min(one, other) if family in LEAST else one + other
