"""A service that is killed between a job's end and its callback, with controls."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from tests.service.kill_points import SHORT_LEASE
from tests.service.webhook_receiver import Receiver
from tests.waiting import until

import ackline
from ackline.core.job import State
from ackline.queues import Queues
from ackline.service.webhooks import delivery
from ackline.service.webhooks.dispatcher import Dispatcher
from ackline.stores.memory import MemoryStore

SETTINGS = """
[webhooks]
networks = ["127.0.0.0/8"]
plain_http = true
backoff = [0.02, 0.02, 0.02, 0.02, 0.02]
timeout = 2
"""

JOBS = 100


def finish_jobs(folder: Path, receiver: Receiver, name: str) -> set[str]:
    """Jobs that were completed by a worker without the service."""
    with ackline.open(f"sqlite:///{folder / 'ackline.db'}") as queues:
        queue = queues["email"]
        new = [
            ackline.NewJob(number, id=f"{name}-{number}", callback_url=receiver.url)
            for number in range(JOBS)
        ]
        queue.enqueue_many(new)
        for job in queue.claim(JOBS):
            queue.complete(job, None)
    return {f"{name}-{number}" for number in range(JOBS)}


@pytest.mark.parametrize(
    "after",
    [JOBS // 2, *(pytest.param(message, marks=pytest.mark.slow) for message in (0, 1, JOBS))],
)
def test_no_callback_is_lost_when_the_service_is_killed(serve, tmp_path, receiver, after):
    (tmp_path / "service.toml").write_text(SETTINGS)
    expected = finish_jobs(tmp_path, receiver, "before")
    first = serve("--config", "service.toml", kill_point=SHORT_LEASE)
    expected |= finish_jobs(tmp_path, receiver, "during")
    receiver.wait_for(after)
    first.end(signal.SIGKILL)

    serve("--config", "service.toml", kill_point=SHORT_LEASE)

    receiver.wait_for_ids(expected, seconds=60)
    by_job: dict[str, set[str]] = {}
    for message in receiver.received:
        by_job.setdefault(message.content["data"]["id"], set()).add(message.id)
    # Told twice, if it was killed before it noted the answer, but under one id.
    assert all(len(ids) == 1 for ids in by_job.values())


def test_several_processes_deliver_each_callback_once(serve, tmp_path, receiver):
    (tmp_path / "service.toml").write_text(SETTINGS)
    serve("--config", "service.toml", "--processes", "2")
    expected = finish_jobs(tmp_path, receiver, "a")

    receiver.wait_for_ids(expected, seconds=60)

    with ackline.open(f"sqlite:///{tmp_path / 'ackline.db'}") as queues:
        sent = delivery.open_queue(queues.store)
        until(lambda: sent.counts()[State.COMPLETED] == JOBS)
        assert sum(sent.counts().values()) == JOBS
    assert receiver.jobs == dict.fromkeys(expected, 1)


class Killed(BaseException):
    """The process dies here."""


def dispatch_and_die(kind: type[Dispatcher], monkeypatch: pytest.MonkeyPatch) -> int:
    """Die between the two steps, restart, and count the deliveries."""
    store = MemoryStore()
    store.open()
    dispatcher = kind(store)
    queue = Queues(store)["email"]
    for number in range(10):
        queue.enqueue(number, id=str(number), callback_url="https://example.com/")
    for job in queue.claim(10):
        queue.complete(job, None)
    dispatcher.queues = (queue,)

    def die(*_args: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patched:
        step = "save" if kind is Dispatcher else "enqueue_many"
        owner = "JournalReader" if step == "save" else "Queue"
        patched.setattr(f"ackline.queue.{owner}.{step}", die)
        with pytest.raises(Killed):
            dispatcher.step()

    restarted = kind(store)
    restarted.queues = (queue,)
    restarted.step()
    restarted.step()
    return delivery.open_queue(store).counts()[State.QUEUED]


class SavesFirst(Dispatcher):
    """The mistake: it saves its position first, and then enqueues the deliveries."""

    def _enqueue_deliveries(self, key: Any, events: Any, reader: Any) -> None:
        reader.save()
        super()._enqueue_deliveries(key, events, reader)


def test_a_dispatcher_that_dies_before_it_moves_on_loses_nothing(monkeypatch):
    assert dispatch_and_die(Dispatcher, monkeypatch) == 10


def test_a_dispatcher_that_could_not_store_deliveries_reads_them_again(monkeypatch):
    """The same process continues, and reads events again that it could not enqueue."""
    store = MemoryStore()
    store.open()
    queue = Queues(store)["email"]
    queue.enqueue(1, id="a", callback_url="https://example.com/")
    queue.complete(queue.claim(1)[0], None)
    dispatcher = Dispatcher(store)
    dispatcher.queues = (queue,)

    def fail(*_args: Any) -> Any:
        raise ackline.StoreUnavailable("it is away")

    with monkeypatch.context() as patched:
        patched.setattr("ackline.queue.Queue.enqueue_many", fail)
        with pytest.raises(ExceptionGroup):
            dispatcher.step()
    queue.enqueue(1, id="b")
    dispatcher.step()

    assert delivery.open_queue(store).counts()[State.QUEUED] == 1


def test_control_saving_the_position_first_loses_deliveries(monkeypatch):
    """Control: the order is what keeps them."""
    assert dispatch_and_die(SavesFirst, monkeypatch) == 0
