"""Fault injection: what a store and its workers keep when processes are killed.

`python -m tests.harness.faults --store URL --faults 200` runs a campaign against any store.
"""

from tests.harness.faults.checks.checker import check
from tests.harness.faults.checks.evidence import Evidence
from tests.harness.faults.checks.report import Report, Rule, Violation

__all__ = ["Evidence", "Report", "Rule", "Violation", "check"]
