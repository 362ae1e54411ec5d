"""Ports on loopback that a server can have, and have again after a restart."""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"

LOWEST, HIGHEST = 15_000, 32_000
"""Below the ports that systems give to clients: one of those may be taken by an outgoing
connection while its server is down, even by a client that is trying to reach that very server."""

_chance = random.SystemRandom()


def free_port() -> int:
    """A port that is free right now."""
    while True:
        port = _chance.randrange(LOWEST, HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
