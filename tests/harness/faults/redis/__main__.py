"""`python -m tests.harness.faults.redis --fault NAME --count N --seed S`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.harness.faults.drills.drill import run_command
from tests.harness.faults.redis.drills import DRILLS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one drill, or all, and print the reports; exit status 1 if one is not as expected."""
    return run_command("tests.harness.faults.redis", DRILLS, arguments)


if __name__ == "__main__":
    sys.exit(main())
