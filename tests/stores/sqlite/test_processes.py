"""Several processes on one file."""

from __future__ import annotations

from tests.stores.sqlite.conftest import QUEUE, REQUEST, drafts

from ackline.core.job import State
from ackline.stores.sqlite import SqliteStore

CONSUMER = """
from ackline.core import lifecycle
from ackline.core.config import DEFAULTS
input()
request = ClaimRequest(worker=sys.argv[0], limit=7, lease=60.0)
taken = []
while jobs := store.claim(queue, request).jobs:
    verdicts = store.apply(queue, [lifecycle.complete(job, None, DEFAULTS) for job in jobs])
    assert all(verdict.applied for verdict in verdicts)
    taken += [job.id for job in jobs]
say(*taken)
"""

PRODUCER = """
input()
for n in range(100):
    store.enqueue(queue, [Draft(f"id{n}", "mail", b"")])
say("done")
"""


def together(children):
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    return [child.stdout.readline().split() for child in children]


def test_each_job_is_delivered_to_one_process(store, start):
    store.enqueue(QUEUE, drafts(500))

    taken = together([start(CONSUMER) for _ in range(3)])

    everything = [id for ids in taken for id in ids]
    assert len(everything) == 500
    assert len(set(everything)) == 500
    assert store.describe("default")[0].counts[State.COMPLETED] == 500


def test_one_id_from_many_processes_makes_one_job(store, start):
    together([start(PRODUCER) for _ in range(3)])

    assert store.describe("default")[0].counts[State.QUEUED] == 100
    assert len(store.events(QUEUE, None, 1000)) == 100


def test_opening_at_the_same_time_migrates_once(path, start):
    children = [start("say(store.info().schema)") for _ in range(3)]

    assert {child.stdout.readline() for child in children} == {"1\n"}


def test_jobs_accepted_from_a_killed_process_survive(path, start):
    child = start("say(store.enqueue(queue, [Draft('kept', 'mail', b'x')])[0].accepted); input()")
    assert child.stdout.readline() == "True\n"
    child.kill()
    child.wait()

    store = SqliteStore(path)
    store.open()
    (job,) = store.claim(QUEUE, REQUEST).jobs
    store.close()

    assert job.id == "kept"


def test_an_unfinished_write_of_a_killed_process_leaves_nothing(store, start):
    child = start(
        "from ackline.stores.sqlite.enqueue import enqueue\n"
        "def half(tx):\n"
        "    enqueue(tx, queue, [Draft('half', 'mail', b'x')], 1.0)\n"
        "    say('written'); input()\n"
        "store._engine.write(half)\n"
    )
    assert child.stdout.readline() == "written\n"
    child.kill()
    child.wait()

    assert store.enqueue(QUEUE, drafts(1))[0].accepted
    assert store.get(QUEUE, ["half"]) == [None]
