"""What both comparisons share: their environment, options and output."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Only the standard library is imported here: this runs before anything else is installed.
if TYPE_CHECKING:
    from comparison.queues import ComparedQueue
    from comparison.server import BenchmarkServer

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / ".venv"
CALLERS = 100


def in_own_environment() -> None:
    """Start again with Ackline's own Python, if this is another one."""
    if Path(sys.prefix).resolve() != OWN:
        subprocess.run([ROOT / "tools" / "environment", "dev"], check=True)
        python = str(OWN / "bin" / "python")
        os.execv(python, [python, *sys.argv])


def options(
    about: str | None, queues: Mapping[str, ComparedQueue], usual_jobs: int
) -> argparse.ArgumentParser:
    """The options of both comparisons."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--jobs", type=jobs, default=usual_jobs, help="enqueued in bulk, and drained"
    )
    parser.add_argument("--rounds", type=int, default=3, help="a figure is the median of them")
    parser.add_argument("--only", action="append", choices=[*queues], help="can be repeated")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    parser.add_argument("--plot", type=Path, help="write the drain here, as an SVG")
    return parser


def jobs(text: str) -> int:
    number = int(text)
    if number % CALLERS:
        raise argparse.ArgumentTypeError(f"shared by {CALLERS} callers: give a multiple of that")
    return number


def compare(
    arguments: argparse.Namespace, server: BenchmarkServer, queues: Mapping[str, ComparedQueue]
) -> None:
    """Run the comparison, then print and write its figures."""
    from comparison import environments, plot, report, run

    selected = {name: queues[name] for name in arguments.only or queues}
    left_out = environments.prepare(selected)
    runnable = {name: queue for name, queue in selected.items() if name not in left_out}
    end_with_signal()
    measured = run.run(server, runnable, arguments.jobs, arguments.rounds, left_out)
    print(report.text(measured))
    write(arguments.json, lambda: as_json(measured))
    write(arguments.markdown, lambda: report.text(measured) + "\n")
    write(arguments.plot, lambda: plot.svg(measured))
    sys.exit(any("error" in queue for queue in measured["queues"]))


def end_with_signal() -> None:
    """Exit on SIGTERM, so that running programs end with this one."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def as_json(measured: dict[str, Any]) -> str:
    return json.dumps(measured, indent=2) + "\n"


def write(path: Path | None, content: Callable[[], str]) -> None:
    if path is not None:
        path.write_text(content())
