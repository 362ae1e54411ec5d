"""How soon jobs flow again after a crash of the server, and at full speed, with nobody's help.

`python -m ackline.testing.faults.postgres.recovery` prints a table.
"""

from __future__ import annotations

from ackline.testing.faults.postgres.mortal import MortalPostgres
from ackline.testing.faults.server.recovery import print_table

if __name__ == "__main__":
    print_table("ackline.testing.faults.postgres.recovery", MortalPostgres)
