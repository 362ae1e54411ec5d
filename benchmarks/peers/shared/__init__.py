"""What every peer's program shares: the work, the measures, and the command line.

    PROGRAM about                         what it is, and how it is set up
    PROGRAM one | bulk | concurrent       enqueue
    PROGRAM drain | laps                  work off what is there
    PROGRAM start | round_trip            latencies
    PROGRAM work                          the worker, as the last four start it

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
