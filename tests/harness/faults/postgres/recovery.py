"""How soon jobs flow again after a crash of the server, and at full speed, with nobody's help.

`python -m tests.harness.faults.postgres.recovery` prints a table.
"""

from __future__ import annotations

from tests.harness.faults.postgres.mortal import MortalPostgres
from tests.harness.faults.server.recovery import print_table

if __name__ == "__main__":
    print_table("tests.harness.faults.postgres.recovery", MortalPostgres)
