"""The service, one process, against a trivial echo route of the same server in the same run.

.venv/bin/python benchmarks/service.py
.venv/bin/python benchmarks/service.py --store sqlite --store redis --seconds 3 --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from private_servers import RedisServer
from service_benchmark.measures import Row, measure
from service_benchmark.server import serving

STORES = ("sqlite", "redis")


@contextmanager
def empty_store(kind: str) -> Iterator[str]:
    """A store of its own, for one run."""
    if kind == "redis":
        with RedisServer(persistence="everysec") as server:
            yield server.url
        return
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/jobs.db"


async def run(kind: str, connections: int, seconds: float) -> list[Row]:
    """Measure one store, and print line by line."""
    rows = []
    with empty_store(kind) as store, serving(store) as port:
        async for row in measure(port, store, connections, seconds):
            rows.append({"store": kind, **row})
            print(_line(rows[-1]), flush=True)
    return rows


def _line(row: Row) -> str:
    parts = [f"{row['store']:8}{row['measure']:42}{row['per_second']:9,.0f}/s"]
    if "p50_ms" in row:
        parts.append(f"p50 {row['p50_ms']:.2f} ms")
    if "of_echo" in row:
        parts.append(f"{row['of_echo']:.2f} of echo")
    if "library_p50_ms" in row:
        parts.append(f"through the library {row['library_p50_ms']:.2f} ms")
    return "   ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", action="append", choices=STORES)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = []
    for kind in options.store or STORES:
        figures += asyncio.run(run(kind, options.connections, options.seconds))
    if options.json is not None:
        system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
        machine = f"{system}, Python {platform.python_version()}"
        report = {"machine": machine, "connections": options.connections, "figures": figures}
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
