"""How soon jobs are processed again after a crash of the server.

`python -m tests.harness.faults.postgres.outage_recovery` prints a table.
"""

from __future__ import annotations

from tests.harness.faults.drills.outage_recovery import print_table
from tests.harness.faults.postgres.server import KillablePostgres

if __name__ == "__main__":
    print_table("tests.harness.faults.postgres.outage_recovery", KillablePostgres)
