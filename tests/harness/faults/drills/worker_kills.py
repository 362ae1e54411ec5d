"""Workers and producers are killed and suspended, as on any store."""

from __future__ import annotations

from tests.harness.faults.campaign import Campaign, CampaignPlan
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions


def kill_workers(url: str, options: DrillOptions, *, variant: str = "") -> Report:
    """SIGKILL, and SIGSTOP past the lease then SIGCONT."""
    plan = CampaignPlan(
        store=url,
        faults=options.count,
        seed=options.seed,
        seconds=60.0 + 5 * options.count,
        lease=options.lease,
        producers=1,
        supervised=0,
        variant=variant,
    )
    return Campaign(plan, options.folder).run()
