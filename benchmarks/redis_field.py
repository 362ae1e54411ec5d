#!/usr/bin/env python3
"""Ackline and the field on one private Redis or Valkey server, in one run.

benchmarks/redis_field.py                                   everything; it sets itself up
benchmarks/redis_field.py --only ackline --only bullmq      these two
benchmarks/redis_field.py --markdown FILE --json FILE --plot FILE

docs/benchmarks.md says what each measure means.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / ".venv"
CALLERS = 100


def main() -> None:
    in_own_environment()
    # Only now: they need what is installed there.
    from field import environments, plot, report, run
    from field.entries import ENTRIES

    arguments = parse([*ENTRIES])
    environments.prepare(arguments.only)
    # So that the programs under way end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    measured = run.run(arguments)
    print(report.text(measured))
    write(arguments.json, lambda: json.dumps(measured, indent=2) + "\n")
    write(arguments.markdown, lambda: report.text(measured) + "\n")
    write(arguments.plot, lambda: plot.svg(measured))
    sys.exit(any("error" in entry for entry in measured["entries"]))


def in_own_environment() -> None:
    """Go on with Ackline's own Python, if this is another one."""
    if Path(sys.prefix).resolve() != OWN:
        subprocess.run([ROOT / "tools" / "environment", "dev"], check=True)
        python = str(OWN / "bin" / "python")
        os.execv(python, [python, *sys.argv])


def parse(entries: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=20_000, help="enqueued in bulk, and drained")
    parser.add_argument("--rounds", type=int, default=3, help="a figure is the median of them")
    parser.add_argument("--only", action="append", choices=entries, help="may be given repeatedly")
    parser.add_argument("--durability", choices=["none", "everysec", "always"], default="everysec")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    parser.add_argument("--plot", type=Path, help="write the drain here, as an SVG")
    arguments = parser.parse_args()
    if arguments.jobs % CALLERS:
        parser.error(f"--jobs is shared by {CALLERS} callers: give a multiple of that")
    arguments.only = arguments.only or entries
    return arguments


def write(path: Path | None, content: Callable[[], str]) -> None:
    if path is not None:
        path.write_text(content())


if __name__ == "__main__":
    main()
