"""`python -m tests.mutants`: every mutant must die; exit 1 if one survives or cannot be tried."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.mutants import campaign
from tests.mutants.catalogue import ALL, MEMORY, SQLITE


def main() -> int:
    began = time.monotonic()
    for untouched in (MEMORY[0], SQLITE[0]):
        with tempfile.TemporaryDirectory(prefix="mutant-") as place:
            control = campaign.run_tests(campaign.copy_source(Path(place)), untouched.stages)
        if control.returncode != 0:
            print("the source itself does not pass, so no mutant proves anything")
            print(control.stdout)
            return 1
    verdicts = []
    for verdict in campaign.run(ALL):
        verdicts.append(verdict)
        print(f"{verdict.outcome:14}  {verdict.mutant.name:60}  {verdict.detail}", flush=True)
    alive = [verdict for verdict in verdicts if verdict.outcome != "killed"]
    seconds = time.monotonic() - began
    print(f"{len(verdicts) - len(alive)} of {len(verdicts)} killed in {seconds:.0f} s")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
