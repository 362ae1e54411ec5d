"""Run every queue's program on the server, and take the medians."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from comparison import environments
from comparison.program import ProgramFailed, call
from comparison.queues import ComparedQueue
from comparison.server import BenchmarkServer, Figures

SINGLES = 2_000
"""Calls to enqueue one job each, at most."""

CONCURRENT = 10_000
"""Jobs that concurrent callers enqueue, at most."""

SAMPLES = 300
"""Latencies that are taken."""


@dataclass(frozen=True)
class BenchmarkOptions:
    """The server, and the number of jobs."""

    server: BenchmarkServer
    jobs: int

    def amount(self, queue: ComparedQueue, measure: str) -> int:
        limits = {"one": SINGLES, "concurrent": CONCURRENT}
        if measure in ("start", "round_trip"):
            return SAMPLES
        jobs = round(self.jobs * queue.share)
        return min(jobs, limits.get(measure, jobs))


def run(
    server: BenchmarkServer,
    queues: Mapping[str, ComparedQueue],
    jobs: int,
    rounds: int,
    left_out: dict[str, str],
) -> dict[str, Any]:
    load, _, _ = os.getloadavg()
    with server:
        options = BenchmarkOptions(server, jobs)
        done = [one_round(options, queues) for _ in range(rounds)]
        return {
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "load_before": load,
            "server": server.name,
            "durability": server.durability,
            "jobs": jobs,
            "rounds": rounds,
            "costs": server.columns,
            "left_out": left_out,
            "queues": [
                summary(name, queue, [each[name] for each in done])
                for name, queue in queues.items()
            ],
        }


def one_round(
    options: BenchmarkOptions, queues: Mapping[str, ComparedQueue]
) -> dict[str, dict[str, Any]]:
    return {name: one_queue(options, name, queue) for name, queue in queues.items()}


def one_queue(options: BenchmarkOptions, name: str, queue: ComparedQueue) -> dict[str, Any]:
    figures: Figures = {}
    try:
        for latest in measures(options, queue):
            figures |= latest
            print_progress(name, latest)
    except ProgramFailed as failure:
        print_progress(name, str(failure))
        return {"figures": figures, "error": failure.short}
    return {"figures": figures}


def measures(options: BenchmarkOptions, queue: ComparedQueue) -> Iterator[Figures]:
    server = options.server
    for measure in queue.measures:
        if measure != "drain":
            server.empty()
        before = server.usage()
        answer = measured(options, queue, measure)
        yield {f"{measure}_{name}": value for name, value in answer.items()}
        if measure in ("bulk", "drain"):
            after = server.usage()
            used = {name: after[name] - before[name] for name in after}
            yield from server.costs(measure, used, options.amount(queue, measure))


def measured(options: BenchmarkOptions, queue: ComparedQueue, measure: str) -> Figures:
    settings = [part for setting in queue.settings for part in ("--set", setting)]
    arguments = ["--url", options.server.url, "--jobs", str(options.amount(queue, measure))]
    return call([*environments.command(queue), measure, *arguments, *settings])


def summary(name: str, queue: ComparedQueue, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    names = {name: None for done in rounds for name in done["figures"]}
    figures = {
        name: statistics.median(done["figures"][name] for done in rounds if name in done["figures"])
        for name in names
    }
    about = call([*environments.command(queue), "about"])
    errors = [done["error"] for done in rounds if "error" in done]
    return {
        "queue": name,
        "variant": queue.variant,
        **about,
        **({"error": errors[0]} if errors else {}),
        "figures": figures,
        "each_round": [done["figures"] for done in rounds],
    }


def print_progress(queue: str, figures: Figures | str) -> None:
    if isinstance(figures, dict):
        figures = ", ".join(f"{name} {value:,.2f}" for name, value in figures.items())
    print(f"{queue}: {figures}", file=sys.stderr)
