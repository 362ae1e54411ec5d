"""The pytest plugin of `./prove`: skips tests that have passed, and records each test."""

import json
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.prove import LEASE_SECONDS, ProveOptions, Record

TICK_SECONDS = 0.05

SEED = re.compile(r"\bseed[ =:]+(\d+)")
FIGURE = re.compile(r"^ +([\d,]+)  (\S.*)$", re.M)
FAULTS = re.compile(r"^ +([\d,]+) faults$", re.M)


class StallMeter:
    """Measures the longest time for which a thread that was ready did not run."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def __enter__(self) -> "StallMeter":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _measure(self) -> None:
        before = time.monotonic()
        while not self._stop.wait(TICK_SECONDS):
            now = time.monotonic()
            self.longest = max(self.longest, now - before - TICK_SECONDS)
            before = now


class Recorder:
    """Writes a record for each test that ends."""

    def __init__(self, options: ProveOptions) -> None:
        self.options = options
        self._reports: list[pytest.TestReport] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        self._record({"planned": [item.nodeid for item in items]})
        done = [item for item in items if item.nodeid in self.options.done]
        items[:] = [item for item in items if item.nodeid not in self.options.done]
        config.hook.pytest_deselected(items=done)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        started, self._reports = time.monotonic(), []
        with StallMeter() as stalls:
            result = yield
        outcome = outcome_of(self._reports, stalls.longest)
        if outcome is not None:
            self._record(
                {
                    "test": item.nodeid,
                    "outcome": outcome,
                    "seconds": round(time.monotonic() - started, 1),
                    "stall": round(stalls.longest, 2),
                    "error": "".join(
                        report.longreprtext for report in self._reports if report.failed
                    ),
                    # The last report has the output of all phases.
                    **figures_in(self._reports[-1].capstdout),
                }
            )
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def _record(self, record: Record) -> None:
        line = {"commit": self.options.commit, "campaign": self.options.campaign, **record}
        with Path(self.options.state).open("a") as file:
            file.write(json.dumps(line) + "\n")


def outcome_of(reports: list[pytest.TestReport], stall: float) -> str | None:
    """The outcome of a test; None if it was interrupted."""
    if any(report.failed for report in reports):
        return "inconclusive" if stall > LEASE_SECONDS else "failed"
    if any(report.skipped for report in reports):
        return "skipped"
    return "passed" if {"call", "teardown"} <= {report.when for report in reports} else None


def figures_in(output: str) -> Record:
    """The seeds and figures in the output of a test."""
    figures: Counter[str] = Counter()
    for count, name in FIGURE.findall(output):
        figures[name] += int(count.replace(",", ""))
    figures["faults"] = sum(int(count.replace(",", "")) for count in FAULTS.findall(output))
    return {"seeds": sorted(set(map(int, SEED.findall(output)))), "figures": figures}


def pytest_configure(config: pytest.Config) -> None:
    """Record, if `./prove` has started this pytest."""
    if options := ProveOptions.from_environment():
        # `./prove` stops this with SIGINT, which background processes of a shell script ignore.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        config.pluginmanager.register(Recorder(options))
