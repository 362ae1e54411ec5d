"""A job that kills its process must not take along those that only waited behind it."""

from __future__ import annotations

from ackline import NewJob, State
from ackline.core.events import Act

MODULE = """
import os, signal
import ackline

queue = ackline.open("sqlite:///ackline.db")["work"]
ran = os.open("ran", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@queue.handler(max_attempts=1)
def work(job):
    os.write(ran, f"{job.id}\\n".encode())
    if job.payload == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_unstarted_jobs_of_a_killed_worker_lose_no_attempt(start, queues, workdir):
    (workdir / "work.py").write_text(MODULE)
    queue = queues["work"]
    good = [NewJob("good", id=f"good-{n}") for n in range(1000)]
    # The first of a batch, so that others wait behind it, and one among those that have run.
    first, later = NewJob("poison", id="first"), NewJob("poison", id="later")
    queue.enqueue_many([first, *good[:500], later, *good[500:]])

    start("worker", "work:queue", "--processes", "2", "--concurrency", "1")
    for event in queue.events(follow_for=30):
        counts = queue.counts()
        if event.act is Act.COMPLETE and counts[State.COMPLETED] + counts[State.FAILED] == 1002:
            break

    failed = {job.id for job in queue.jobs(states=[State.FAILED], limit=1002).jobs}
    released = [event.id for event in queue.events() if event.act is Act.RELEASE]
    assert {"first", "later"} <= failed
    assert failed <= {*(workdir / "ran").read_text().split()}
    assert released
    assert not failed & {*released}
