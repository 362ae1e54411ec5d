"""Start the server, run every program on it, and take the medians."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import redis
from field import environments
from field.entries import ENTRIES
from field.program import ProgramFailed, call

from ackline.testing.servers.redis import RedisServer

SINGLES = 2_000
"""Calls to enqueue one job each, at most."""

SHARED = 10_000
"""Jobs that concurrent callers enqueue, at most."""

SAMPLES = 300
"""Latencies that are taken."""

Figures = dict[str, float]


@dataclass(frozen=True)
class Bench:
    """One server, and how much is to be measured on it."""

    server: RedisServer
    client: redis.Redis
    jobs: int

    def amount(self, measure: str) -> int:
        limits = {"one": SINGLES, "concurrent": SHARED}
        if measure in ("start", "round_trip"):
            return SAMPLES
        return min(self.jobs, limits.get(measure, self.jobs))

    def usage(self) -> Figures:
        """What the server has used, once the last program's connections are gone from it."""
        self.server.wait_for("the others to go", self.is_alone)
        cpu, memory = self.client.info("cpu"), self.client.info("memory")
        return {
            "cpu": cpu["used_cpu_user"] + cpu["used_cpu_sys"],
            "memory": memory["used_memory"],
        }

    def is_alone(self) -> bool:
        return bool(self.client.info("clients")["connected_clients"] == 1)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    load, _, _ = os.getloadavg()
    # A rewrite of the file in the middle of somebody's measure would be bad luck for them.
    options = {"auto_aof_rewrite_percentage": "0"}
    with (
        RedisServer(persistence=arguments.durability, **options) as server,
        server.client() as client,
    ):
        bench = Bench(server, client, arguments.jobs)
        rounds = [one_round(bench, arguments.only) for _ in range(arguments.rounds)]
        return {
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "load_before": load,
            "server": server_name(client),
            "durability": arguments.durability,
            "jobs": arguments.jobs,
            "rounds": arguments.rounds,
            "entries": [
                summary(entry, [done[entry] for done in rounds]) for entry in arguments.only
            ],
        }


def server_name(client: redis.Redis) -> str:
    info = client.info("server")
    name, version = info.get("server_name", "redis"), info["redis_version"]
    return f"{name.capitalize()} {info.get(f'{name}_version', version)}"


def one_round(bench: Bench, entries: list[str]) -> dict[str, dict[str, Any]]:
    return {entry: one_entry(bench, entry) for entry in entries}


def one_entry(bench: Bench, entry: str) -> dict[str, Any]:
    figures: Figures = {}
    try:
        for found in measures(bench, entry):
            figures |= found
            tell(entry, found)
    except ProgramFailed as failure:
        tell(entry, str(failure))
        return {"figures": figures, "error": failure.short}
    return {"figures": figures}


def measures(bench: Bench, entry: str) -> Iterator[Figures]:
    for measure in ENTRIES[entry].measures:
        if measure != "drain":
            bench.client.execute_command("FLUSHALL", "SYNC")
        before = bench.usage()
        answer = measured(bench, entry, measure)
        yield {f"{measure}_{name}": value for name, value in answer.items()}
        if measure in ("bulk", "drain"):
            yield from costs(measure, before, bench.usage(), bench.jobs)


def measured(bench: Bench, entry: str, measure: str) -> Figures:
    chosen = ENTRIES[entry]
    settings = [part for setting in chosen.settings for part in ("--set", setting)]
    asked = ["--url", bench.server.url, "--jobs", str(bench.amount(measure))]
    return call([*environments.command(entry), measure, *asked, *settings])


def costs(measure: str, before: Figures, after: Figures, jobs: int) -> Iterator[Figures]:
    yield {f"{measure}_server_us": (after["cpu"] - before["cpu"]) / jobs * 1e6}
    if measure == "bulk":
        yield {"bytes": (after["memory"] - before["memory"]) / jobs}


def summary(entry: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    names = {name: None for done in rounds for name in done["figures"]}
    figures = {
        name: statistics.median(done["figures"][name] for done in rounds if name in done["figures"])
        for name in names
    }
    about = call([*environments.command(entry), "about"])
    errors = [done["error"] for done in rounds if "error" in done]
    return {
        "entry": entry,
        "variant": ENTRIES[entry].variant,
        **about,
        **({"error": errors[0]} if errors else {}),
        "figures": figures,
        "each_round": [done["figures"] for done in rounds],
    }


def tell(entry: str, what: Figures | str) -> None:
    if isinstance(what, dict):
        what = ", ".join(f"{name} {value:,.2f}" for name, value in what.items())
    print(f"{entry}: {what}", file=sys.stderr)
