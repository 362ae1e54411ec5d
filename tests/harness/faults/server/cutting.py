"""Connections are cut before a request reaches the server, or before its answer comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

from tests.harness.faults.checker import check
from tests.harness.faults.crew import wait_for
from tests.harness.faults.cuts import Cut, Moment
from tests.harness.faults.proxy import Address, Proxy
from tests.harness.faults.report import Report
from tests.harness.faults.server.order import Order
from tests.harness.faults.server.scene import ServerScene
from tests.harness.faults.server.siege import Siege

ROLES = ("producer", "worker")
"""Each has a proxy of its own, so that both are cut."""

_WHEN = {
    "before": "before the server acts",
    "after": "after the server has acted",
    "delivered": "when it has its answer",
}


def cut_connections(
    order: Order,
    server: Address,
    url_of: Callable[[Address], str],
    cuts: Sequence[Cut],
) -> Report:
    """Cut `order.count` connections; `url_of` makes a URL of the server's or a proxy's address."""
    return _cut(order, server, url_of, cuts)


def cut_producers_that_resend(
    order: Order, server: Address, url_of: Callable[[Address], str], cuts: Sequence[Cut]
) -> Report:
    """The control: a producer that sends again under a new id makes jobs nobody asked for."""
    return _cut(order, server, url_of, cuts, variant="resends as new")


def _cut(
    order: Order,
    server: Address,
    url_of: Callable[[Address], str],
    cuts: Sequence[Cut],
    *,
    variant: str = "",
) -> Report:
    with contextlib.ExitStack() as stack:
        scene = stack.enter_context(
            ServerScene(url_of(server), order.folder, seed=order.seed, lease=order.lease)
        )
        proxies = {
            role: stack.enter_context(Proxy(server, partial(_note, scene, role))) for role in ROLES
        }
        scene.ways = {role: url_of(proxy.address) for role, proxy in proxies.items()}
        siege = Siege(scene, order)

        def blow() -> None:
            role = "producer" if variant else siege.random.choice(ROLES)
            proxy = proxies[role]
            already = proxy.done.total()
            proxy.cuts.order(siege.random.choice(cuts))
            wait_for("the cut", lambda: proxy.done.total() > already)
            if variant:
                # Cutting off what is sent again would hide that it is.
                siege.wait_for_work(role)

        siege.run(blow, variant=variant)
        title = f"{order.count} connections cut{' and ' if variant else ''}{variant}"
        return check(scene.evidence(), seed=order.seed, title=title)


def _note(scene: ServerScene, role: str, moment: Moment) -> None:
    with scene.strike(f"cut a {role} {_WHEN[moment]}"):
        pass
