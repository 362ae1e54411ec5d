"""`python -m tests.mutants [STORE...]`: try every mutant, or those of some stores.

The exit status is 1 if a test fails without a mutant, or if a mutant is not killed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.mutants import campaign
from tests.mutants.catalogue import ALL
from tests.mutants.mutant import Mutant


def main() -> int:
    started = time.monotonic()
    wanted, stores = sys.argv[1:], sorted({mutant.store for mutant in ALL})
    if not set(wanted) <= set(stores):
        print(f"{__doc__}\nSTORE is one of {', '.join(stores)}.")
        return 2
    mutants = [mutant for mutant in ALL if not wanted or mutant.store in wanted]
    if not source_passes(mutants):
        return 1
    verdicts = []
    for verdict in campaign.run(mutants):
        verdicts.append(verdict)
        print(f"{verdict.outcome:14}  {verdict.mutant.name:60}  {verdict.detail}", flush=True)
    alive = [verdict for verdict in verdicts if verdict.outcome != "killed"]
    campaign.write_killers(verdicts, [mutant.name for mutant in ALL])
    seconds = time.monotonic() - started
    print(f"{len(verdicts) - len(alive)} of {len(verdicts)} killed in {seconds:.0f} s")
    return 1 if alive else 0


def source_passes(mutants: list[Mutant]) -> bool:
    """The control: the tests of these mutants pass on the unchanged source."""
    stages = {tuple(stage): stage for mutant in mutants for stage in mutant.stages}
    with tempfile.TemporaryDirectory(prefix="mutant-") as temporary:
        timeout = max(mutant.test_timeout for mutant in mutants)
        source = campaign.copy_source(Path(temporary))
        control = campaign.run_tests(source, [*stages.values()], timeout)
    if control.code != 0:
        print("the tests fail on the unchanged source, so no mutant can be judged")
        print(control.output)
    return control.code == 0


if __name__ == "__main__":
    sys.exit(main())
