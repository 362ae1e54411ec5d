"""The command line of a peer's program."""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from shared.measures import MEASURES
from shared.peer import About, Peer, finish
from shared.worker import HANDLERS


def main(peer: Peer) -> None:
    arguments = parse()
    peer.url = arguments.url
    peer.results = arguments.measure == "round_trip" or arguments.handler == "echo"
    change(peer, arguments.set)
    match arguments.measure:
        case "about":
            print(json.dumps(describe(peer.about)))
        case "work":
            peer.work(HANDLERS[arguments.handler](arguments.jobs))
        case measure:
            print(json.dumps(run(measured(peer, measure, arguments.jobs))))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("measure", choices=["about", "work", *MEASURES])
    parser.add_argument("--url", default="redis://127.0.0.1:6379")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--handler", choices=[*HANDLERS], default="tally")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE")
    return parser.parse_args()


def change(peer: Peer, settings: Sequence[str]) -> None:
    for setting in settings:
        name, _, value = setting.partition("=")
        setattr(peer, name, type(getattr(peer, name))(value))


def describe(about: About) -> dict[str, Any]:
    versions = [f"{package} {version(package)}" for package in about.packages]
    python = f"Python {platform.python_version()}"
    return {**asdict(about), "versions": [*versions, python]}


async def measured(peer: Peer, measure: str, jobs: int) -> dict[str, float]:
    await finish(peer.open())
    # The connection is made before the clock starts.
    await finish(peer.left())
    figures = await MEASURES[measure](peer, jobs)
    await finish(peer.close())
    return figures


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run on uvloop, if it is installed."""
    try:
        from uvloop import new_event_loop
    except ModuleNotFoundError:
        new_event_loop = None
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
