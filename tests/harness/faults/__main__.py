"""`python -m tests.harness.faults --store URL --faults N --seed S --seconds MAX`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.harness.faults.campaign import Campaign, CampaignPlan


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign and print its report; exit status 1 if a rule was broken."""
    options = _parser().parse_args(arguments)
    # Exit by an exception, so that the started processes are ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="ackline-faults-") as temporary:
        plan = CampaignPlan(
            store=options.store or f"sqlite:///{temporary}/jobs.db",
            faults=options.faults,
            seed=options.seed,
            seconds=options.seconds,
            lease=options.lease,
        )
        folder = Path(options.histories or f"{temporary}/histories")
        report = Campaign(plan, folder).run()
    sys.stdout.write(f"{report}\n")
    return 0 if report.ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.faults", description=__doc__)
    parser.add_argument("--store", help="an empty store (default: a new SQLite file)")
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="no faults are injected after this"
    )
    parser.add_argument("--lease", type=float, default=1.0, help="seconds")
    parser.add_argument("--histories", help="a folder in which to keep the histories")
    return parser


if __name__ == "__main__":
    sys.exit(main())
