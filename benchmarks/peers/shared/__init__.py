"""What every peer's program shares: the work, the measures, and the command line.

    PROGRAM about                         its name, settings and versions
    PROGRAM one | bulk | concurrent       enqueue
    PROGRAM drain | long_drain            run the jobs that are enqueued
    PROGRAM start | round_trip            latencies
    PROGRAM work                          the worker, started by the last four

Each prints one JSON. `node/common.mjs` has the same for peers in JavaScript.
"""

from shared.peer import CALLERS, PAYLOAD, About, Handle, Payload, Peer
from shared.program import main, run
from shared.worker import echo

__all__ = [
    "CALLERS",
    "PAYLOAD",
    "About",
    "Handle",
    "Payload",
    "Peer",
    "echo",
    "main",
    "run",
]
