"""`python -m ackline.testing.faults.redis --fault NAME --count N --seed S`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from ackline.testing.faults.redis.drills import DRILLS, Drill
from ackline.testing.faults.redis.order import Order


def main(arguments: list[str] | None = None) -> int:
    """Run one drill, or all, and print the reports; 1 when one did not come out as it must."""
    options = _parser().parse_args(arguments)
    # Told to stop, it still ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    passed = [_run(DRILLS[name], options) for name in options.fault or DRILLS]
    return 0 if all(passed) else 1


def _run(drill: Drill, options: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory(prefix="ackline-faults-") as place:
        folder = Path(options.histories or place) / drill.name
        report = drill.run(Order(count=options.count, seed=options.seed, folder=folder))
    passes = drill.passes(report)
    if drill.breaks is not None:
        said = "as it must" if passes else "AND DID NOT"
        sys.stdout.write(f"control, to break {drill.breaks.name}, {said}: ")
    sys.stdout.write(f"{report}\n")
    sys.stdout.flush()
    return passes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ackline.testing.faults.redis", description=__doc__
    )
    parser.add_argument("--fault", action="append", choices=DRILLS, help="(default: all)")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histories", help="a folder to keep the histories in")
    return parser


if __name__ == "__main__":
    sys.exit(main())
