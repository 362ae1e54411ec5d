"""Free ports on loopback, which a server can use again after a restart."""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"

LOWEST, HIGHEST = 15_000, 32_000
"""Below the ephemeral ports, which an outgoing connection could take while its server is down."""

_random = random.SystemRandom()


def free_port() -> int:
    """A port that is free right now."""
    while True:
        port = _random.randrange(LOWEST, HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
