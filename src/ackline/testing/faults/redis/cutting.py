"""Connections are cut before a request reaches the server, or before its answer comes back."""

from __future__ import annotations

import contextlib
from functools import partial

from ackline.testing.faults.checker import check
from ackline.testing.faults.crew import wait_for
from ackline.testing.faults.cuts import Moment
from ackline.testing.faults.proxy import Proxy
from ackline.testing.faults.redis.order import Order
from ackline.testing.faults.redis.scene import ServerScene
from ackline.testing.faults.redis.siege import Siege
from ackline.testing.faults.report import Report
from ackline.testing.servers.redis import RedisServer

MOMENTS: tuple[Moment, ...] = ("before", "after")

ROLES = ("producer", "worker")
"""Each has a proxy of its own, so that both are met."""


def cut(order: Order) -> Report:
    """Each cut is survived: whoever sends again is answered the same, and nothing is done twice."""
    return _cut(order, "")


def cut_resent(order: Order) -> Report:
    """The control: a producer that sends again under a new id makes jobs nobody asked for."""
    return _cut(order, "resends as new")


def _cut(order: Order, variant: str) -> Report:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer())
        scene = stack.enter_context(
            ServerScene(server.url, order.folder, seed=order.seed, lease=order.lease)
        )
        proxies = {
            role: stack.enter_context(Proxy(server.address, partial(_note, scene, role)))
            for role in ROLES
        }
        scene.ways = {role: url_of(proxy) for role, proxy in proxies.items()}
        siege = Siege(scene, order)

        def blow() -> None:
            proxy = proxies[siege.random.choice(ROLES)]
            already = proxy.done.total()
            proxy.cut_next(siege.random.choice(MOMENTS))
            wait_for("the cut", lambda: proxy.done.total() > already)

        siege.run(blow, variant=variant)
        title = f"{order.count} connections cut{' and ' if variant else ''}{variant}"
        return check(scene.evidence(), seed=order.seed, title=title)


def url_of(proxy: Proxy) -> str:
    """The server behind a proxy, for a store."""
    host, port = proxy.address
    return f"redis://{host}:{port}/0"


def _note(scene: ServerScene, role: str, moment: Moment) -> None:
    with scene.strike(f"cut a {role} {moment} the server acts"):
        pass
