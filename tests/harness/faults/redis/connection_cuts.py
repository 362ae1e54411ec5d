"""Cut connections before a request reaches the server, or before the client gets the answer."""

from __future__ import annotations

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.connection_cuts import cut_connections, cut_producers_with_new_ids
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.proxy import Address, ConnectionCut
from tests.harness.servers.redis import RedisServer

CUTS = (ConnectionCut("before"), ConnectionCut("after"))


def cut(options: DrillOptions) -> Report:
    """No cut does harm: a repeated call gets the same answer, and nothing is done twice."""
    with RedisServer() as server:
        return cut_connections(options, server.address, url_of, CUTS)


def cut_new_ids(options: DrillOptions) -> Report:
    """The control: a producer that retries with a new id creates jobs that were never requested."""
    with RedisServer() as server:
        return cut_producers_with_new_ids(options, server.address, url_of, CUTS)


def url_of(address: Address) -> str:
    """The URL of the server at an address."""
    host, port = address
    return f"redis://{host}:{port}/0"
