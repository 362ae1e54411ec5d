"""Metrics of one process: open streams, and its maintenance loops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime


class ProcessCollector(Collector):
    """Collects the metrics of this process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[Metric]:
        open_streams = len(self._runtime.streams)
        yield GaugeMetricFamily("ackline_streams", "Open streams and long polls.", open_streams)
        lag = GaugeMetricFamily(
            "ackline_loop_lag_seconds", "Time since the last run of a loop.", labels=["loop"]
        )
        done = CounterMetricFamily(
            "ackline_maintenance", "Maintenance done, by loop.", labels=["loop", "what"]
        )
        for loop in (loop.stats() for loop in self._runtime.background.loops):
            if loop.last_run is not None:
                lag.add_metric([loop.name], max(0.0, time.time() - loop.last_run))
            for what, number in loop.done.items():
                done.add_metric([loop.name, what], number)
        yield lag
        yield done
