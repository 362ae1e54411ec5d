"""Cut connections before a request reaches the server, or before the client gets the answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

from tests.harness.faults.checks.checker import check
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.drills.workload_run import WorkloadRun
from tests.harness.faults.processes import wait_for
from tests.harness.faults.proxy import Address, ConnectionCut, CutPoint, Proxy

ROLES = ("producer", "worker")
"""Each has its own proxy, so that both are cut."""

_WHEN = {
    "before": "before the server acts",
    "after": "after the server has acted",
    "delivered": "when the client has its answer",
}


def cut_connections(
    options: DrillOptions,
    server: Address,
    url_of: Callable[[Address], str],
    cuts: Sequence[ConnectionCut],
) -> Report:
    """Cut `options.count` connections; `url_of` makes a URL of an address."""
    return _cut(options, server, url_of, cuts)


def cut_producers_with_new_ids(
    options: DrillOptions,
    server: Address,
    url_of: Callable[[Address], str],
    cuts: Sequence[ConnectionCut],
) -> Report:
    """The control: a producer that resends under a new id makes jobs that were never requested."""
    return _cut(options, server, url_of, cuts, variant="resends with new id")


def _cut(
    options: DrillOptions,
    server: Address,
    url_of: Callable[[Address], str],
    cuts: Sequence[ConnectionCut],
    *,
    variant: str = "",
) -> Report:
    with contextlib.ExitStack() as stack:
        scenario = stack.enter_context(
            ServerScenario(url_of(server), options.folder, seed=options.seed, lease=options.lease)
        )
        proxies = {
            role: stack.enter_context(Proxy(server, partial(_record_cut, scenario, role)))
            for role in ROLES
        }
        scenario.urls_by_role = {role: url_of(proxy.address) for role, proxy in proxies.items()}
        workload = WorkloadRun(scenario, options)

        def inject_fault() -> None:
            role = "producer" if variant else workload.random.choice(ROLES)
            proxy = proxies[role]
            before = proxy.done.total()
            proxy.cuts.add(workload.random.choice(cuts))
            wait_for("the cut", lambda: proxy.done.total() > before)
            if variant:
                # A cut of the second request would hide the duplicate.
                workload.wait_for_work(role)

        workload.run(inject_fault, variant=variant)
        title = f"{options.count} connections cut{' and ' if variant else ''}{variant}"
        return check(scenario.evidence(), seed=options.seed, title=title)


def _record_cut(scenario: ServerScenario, role: str, point: CutPoint) -> None:
    with scenario.server_fault(f"cut a {role} {_WHEN[point]}"):
        pass
