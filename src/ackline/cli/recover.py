"""`ackline recover`: take back the jobs of workers that are gone, now."""

from __future__ import annotations

from ackline.cli.app import command
from ackline.cli.queues import ACT, QueueArgument
from ackline.cli.session import Session
from ackline.cli.words import count, plain
from ackline.maintenance import recover as take_back


@command("recover", panel=ACT)
def recover(session: Session, queue: QueueArgument) -> None:
    """Take back jobs whose lease has lapsed, or whose worker fell silent.

    Workers do that by themselves, unless the queue's settings turn it off. It costs each job the
    attempt; one that has no other left goes to the DLQ.
    """
    taken = take_back(session.known_queue(queue))
    if session.json:
        session.document(taken)
        return
    dead = f", {taken.dead_lettered:,} of them to the DLQ" if taken.dead_lettered else ""
    session.line(f"{plain(queue)}: {count(taken.expired, 'job')} taken back{dead}")
