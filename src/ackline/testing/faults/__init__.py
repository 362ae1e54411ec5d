"""Real processes, real signals: what a store and its workers keep when processes die.

`python -m ackline.testing.faults --store URL --faults 200` runs a campaign against any store.
"""

from ackline.testing.faults.case import Evidence
from ackline.testing.faults.checker import check
from ackline.testing.faults.report import Report, Rule, Violation

__all__ = ["Evidence", "Report", "Rule", "Violation", "check"]
