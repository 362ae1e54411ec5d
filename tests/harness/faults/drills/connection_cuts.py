"""Connections are cut before a request reaches the server, or before its answer comes back."""

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
"""Each has a proxy of its own, so that both are cut."""

_WHEN = {
    "before": "before the server acts",
    "after": "after the server has acted",
    "delivered": "when it has its answer",
}


def cut_connections(
    order: DrillOptions,
    server: Address,
    url_of: Callable[[Address], str],
    cuts: Sequence[ConnectionCut],
) -> Report:
    """Cut `order.count` connections; `url_of` makes a URL of the server's or a proxy's address."""
    return _cut(order, server, url_of, cuts)


def cut_producers_that_resend(
    order: DrillOptions,
    server: Address,
    url_of: Callable[[Address], str],
    cuts: Sequence[ConnectionCut],
) -> Report:
    """The control: a producer that sends again under a new id makes jobs nobody asked for."""
    return _cut(order, server, url_of, cuts, variant="resends as new")


def _cut(
    order: DrillOptions,
    server: Address,
    url_of: Callable[[Address], str],
    cuts: Sequence[ConnectionCut],
    *,
    variant: str = "",
) -> Report:
    with contextlib.ExitStack() as stack:
        scene = stack.enter_context(
            ServerScenario(url_of(server), order.folder, seed=order.seed, lease=order.lease)
        )
        proxies = {
            role: stack.enter_context(Proxy(server, partial(_note, scene, role))) for role in ROLES
        }
        scene.urls_by_role = {role: url_of(proxy.address) for role, proxy in proxies.items()}
        siege = WorkloadRun(scene, order)

        def blow() -> None:
            role = "producer" if variant else siege.random.choice(ROLES)
            proxy = proxies[role]
            already = proxy.done.total()
            proxy.cuts.add(siege.random.choice(cuts))
            wait_for("the cut", lambda: proxy.done.total() > already)
            if variant:
                # Cutting off what is sent again would hide that it is.
                siege.wait_for_work(role)

        siege.run(blow, variant=variant)
        title = f"{order.count} connections cut{' and ' if variant else ''}{variant}"
        return check(scene.evidence(), seed=order.seed, title=title)


def _note(scene: ServerScenario, role: str, moment: CutPoint) -> None:
    with scene.server_fault(f"cut a {role} {_WHEN[moment]}"):
        pass
