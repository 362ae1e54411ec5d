"""Run every program of a field on its server, and take the medians."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from field import environments
from field.entries import Entry
from field.ground import Figures, Ground
from field.program import ProgramFailed, call

SINGLES = 2_000
"""Calls to enqueue one job each, at most."""

SHARED = 10_000
"""Jobs that concurrent callers enqueue, at most."""

SAMPLES = 300
"""Latencies that are taken."""


@dataclass(frozen=True)
class Bench:
    """One server, and how much is to be measured on it."""

    ground: Ground
    jobs: int

    def amount(self, entry: Entry, measure: str) -> int:
        limits = {"one": SINGLES, "concurrent": SHARED}
        if measure in ("start", "round_trip"):
            return SAMPLES
        jobs = round(self.jobs * entry.share)
        return min(jobs, limits.get(measure, jobs))


def run(
    ground: Ground, entries: Mapping[str, Entry], jobs: int, rounds: int, left_out: dict[str, str]
) -> dict[str, Any]:
    load, _, _ = os.getloadavg()
    with ground:
        bench = Bench(ground, jobs)
        done = [one_round(bench, entries) for _ in range(rounds)]
        return {
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "load_before": load,
            "server": ground.name,
            "durability": ground.durability,
            "jobs": jobs,
            "rounds": rounds,
            "costs": ground.columns,
            "left_out": left_out,
            "entries": [
                summary(name, entry, [each[name] for each in done])
                for name, entry in entries.items()
            ],
        }


def one_round(bench: Bench, entries: Mapping[str, Entry]) -> dict[str, dict[str, Any]]:
    return {name: one_entry(bench, name, entry) for name, entry in entries.items()}


def one_entry(bench: Bench, name: str, entry: Entry) -> dict[str, Any]:
    figures: Figures = {}
    try:
        for latest in measures(bench, entry):
            figures |= latest
            tell(name, latest)
    except ProgramFailed as failure:
        tell(name, str(failure))
        return {"figures": figures, "error": failure.short}
    return {"figures": figures}


def measures(bench: Bench, entry: Entry) -> Iterator[Figures]:
    ground = bench.ground
    for measure in entry.measures:
        if measure != "drain":
            ground.empty()
        before = ground.usage()
        answer = measured(bench, entry, measure)
        yield {f"{measure}_{name}": value for name, value in answer.items()}
        if measure in ("bulk", "drain"):
            after = ground.usage()
            used = {name: after[name] - before[name] for name in after}
            yield from ground.costs(measure, used, bench.amount(entry, measure))


def measured(bench: Bench, entry: Entry, measure: str) -> Figures:
    settings = [part for setting in entry.settings for part in ("--set", setting)]
    options = ["--url", bench.ground.url, "--jobs", str(bench.amount(entry, measure))]
    return call([*environments.command(entry), measure, *options, *settings])


def summary(name: str, entry: Entry, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    names = {name: None for done in rounds for name in done["figures"]}
    figures = {
        name: statistics.median(done["figures"][name] for done in rounds if name in done["figures"])
        for name in names
    }
    about = call([*environments.command(entry), "about"])
    errors = [done["error"] for done in rounds if "error" in done]
    return {
        "entry": name,
        "variant": entry.variant,
        **about,
        **({"error": errors[0]} if errors else {}),
        "figures": figures,
        "each_round": [done["figures"] for done in rounds],
    }


def tell(entry: str, news: Figures | str) -> None:
    if isinstance(news, dict):
        news = ", ".join(f"{name} {value:,.2f}" for name, value in news.items())
    print(f"{entry}: {news}", file=sys.stderr)
