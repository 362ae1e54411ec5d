"""Workers and producers are killed and stopped, as on any store."""

from __future__ import annotations

from tests.harness.faults.campaign import Campaign, Plan
from tests.harness.faults.report import Report
from tests.harness.faults.server.order import Order


def kill_workers(url: str, order: Order, *, variant: str = "") -> Report:
    """SIGKILL, and SIGSTOP past the lease then SIGCONT."""
    plan = Plan(
        store=url,
        faults=order.count,
        seed=order.seed,
        seconds=60.0 + 5 * order.count,
        lease=order.lease,
        producers=1,
        supervised=0,
        variant=variant,
    )
    return Campaign(plan, order.folder).run()
