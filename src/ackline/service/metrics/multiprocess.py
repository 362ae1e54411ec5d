"""Merges the metrics of several processes, each of which publishes its own in a folder."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

PUBLISH_EVERY = 1.0
"""Seconds between publications: the metrics of other processes may be this old."""

DEAD_AFTER = 10.0
"""Seconds without publishing after which a process is dead: its gauges no longer count."""

MINIMUM_OF = frozenset({"ackline_loop_lag_seconds"})
"""Of these the minimum counts, not the sum: it is enough if one process runs a loop."""


class SharedMetrics:
    """The folder that the processes of one service share."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._file = folder / f"{name}.metrics"

    def publish(self, text: bytes) -> None:
        """Replace the file of this process atomically."""
        draft = self._file.with_suffix(".draft")
        draft.write_bytes(text)
        draft.replace(self._file)

    def read(self) -> Iterator[list[Metric]]:
        """The metrics of the other processes."""
        for file in sorted(self._folder.glob("*.metrics")):
            if file != self._file:
                alive = time.time() - file.stat().st_mtime < DEAD_AFTER
                found = text_string_to_metric_families(file.read_text())
                yield [family for family in found if alive or family.type != "gauge"]


def merge(processes: Iterable[Iterable[Metric]]) -> Iterator[Metric]:
    """One family per name, with the samples added up."""
    families: dict[str, Metric] = {}
    sums: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for family in (family for process in processes for family in process):
        families.setdefault(family.name, family)
        values = sums.setdefault(family.name, {})
        for sample in family.samples:
            if sample.name.endswith("_created"):
                continue
            key = (sample.name, tuple(sorted(sample.labels.items())))
            before = values.get(key)
            values[key] = (
                sample.value if before is None else _add(family.name, before, sample.value)
            )
    for name, first in families.items():
        merged = Metric(name, first.documentation, first.type)
        for (sample_name, labels), value in sums[name].items():
            merged.add_sample(sample_name, dict(labels), value)
        yield merged


def _add(family: str, one: float, other: float) -> float:
    return min(one, other) if family in MINIMUM_OF else one + other
