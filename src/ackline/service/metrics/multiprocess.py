"""Figures of several processes as one: each writes its own to a folder, any adds them up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

PUBLISH_EVERY = 1.0
"""Seconds; the figures of other processes may be this old."""

DEAD_AFTER = 10.0
"""Seconds without publishing after which a process is dead: its gauges no longer count."""

MINIMUM_OF = frozenset({"ackline_loop_lag_seconds"})
"""Of these the least value counts, not the sum: one process that ran a loop is enough."""


class SharedMetrics:
    """The folder that the processes of one service share."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._mine = folder / f"{name}.metrics"

    def publish(self, text: bytes) -> None:
        """Replace this process's file in one step, so that nobody reads half of it."""
        draft = self._mine.with_suffix(".draft")
        draft.write_bytes(text)
        draft.replace(self._mine)

    def read(self) -> Iterator[list[Metric]]:
        """The figures of the other processes."""
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
            before = values.get(place)
            values[place] = (
                sample.value if before is None else _add(family.name, before, sample.value)
            )
    for name, first in families.items():
        merged = Metric(name, first.documentation, first.type)
        for (sample_name, labels), value in sums[name].items():
            merged.add_sample(sample_name, dict(labels), value)
        yield merged


def _add(family: str, one: float, other: float) -> float:
    return min(one, other) if family in MINIMUM_OF else one + other
