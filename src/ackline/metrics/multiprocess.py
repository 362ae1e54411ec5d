"""Merges the metrics of several processes, each of which publishes its own in a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

PUBLISH_EVERY = 1.0
"""Seconds between publications: the metrics of other processes may be this old."""

DEAD_AFTER = 10.0
"""Seconds without publishing after which a process is dead: its gauges no longer count."""

NOT_ADDED: Mapping[str, Callable[[float, float], float]] = {
    "ackline_loop_lag_seconds": min,  # it is enough if one process runs a loop
    "ackline_worker_heartbeat_age_seconds": max,
}
"""How the values of several processes become one, where it is not their sum."""

MAX_DEAD = 20
"""Files of dead processes, beyond which they are merged into one."""


class SharedMetrics:
    """The folder that the processes of one service, or of one supervisor, share."""

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
                yield _read(file)

    def publish_dead(self) -> None:
        """Publish the counts of dead processes as those of this one, if they are many.

        Only one process may do this, and it has no metrics of its own.
        """
        others = (file for file in self._folder.glob("*.metrics") if file != self._file)
        dead = [file for file in others if not _is_alive(file)]
        if len(dead) > MAX_DEAD:
            own = [self._file] if self._file.exists() else []
            self.publish(as_text(merge(map(_read, [*own, *dead]))))
            for file in dead:
                file.unlink()

    def read_all(self) -> Iterator[Metric]:
        """The metrics of all processes, merged."""
        own = [_read(self._file)] if self._file.exists() else []
        return merge([*own, *self.read()])


def _is_alive(file: Path) -> bool:
    return time.time() - file.stat().st_mtime < DEAD_AFTER


def _read(file: Path) -> list[Metric]:
    alive = _is_alive(file)
    found = text_string_to_metric_families(file.read_text())
    return [family for family in found if alive or family.type != "gauge"]


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def as_text(families: Iterable[Metric]) -> bytes:
    """Metrics in the format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Families(families))
    return generate_latest(registry)


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
    combine = NOT_ADDED.get(family)
    return one + other if combine is None else combine(one, other)
