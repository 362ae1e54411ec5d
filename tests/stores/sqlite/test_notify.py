"""Wake-ups across threads and processes, with polling switched off to see them alone."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time

import pytest
from tests.stores.sqlite.conftest import QUEUE, REQUEST, drafts

from ackline.core import lifecycle
from ackline.core.errors import StoreClosed
from ackline.core.job import QueueKey
from ackline.stores.contract import Filter, Topic
from ackline.stores.sqlite import notify
from ackline.stores.sqlite.enqueue import enqueue

LONG = 20.0


@pytest.fixture
def without_polling(monkeypatch):
    monkeypatch.setattr(notify, "POLL_INTERVAL", 60.0)


def waiting(listener):
    """Start to wait in a thread; the function returned gives the answer."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(listener.wait(LONG)))
    thread.start()

    def answer():
        thread.join(LONG + 5)
        return answers[0]

    return answer


@pytest.mark.usefixtures("without_polling")
class TestByFifo:
    @pytest.mark.parametrize("topic", ["ready", "changes"])
    def test_enqueue_wakes(self, store, topic):
        with store.listen([QUEUE], topic) as listener:
            answer = waiting(listener)
            store.enqueue(QUEUE, drafts(1))
            assert answer()

    def test_what_came_before_the_wait_is_not_missed(self, store):
        with store.listen([QUEUE], "ready") as listener:
            store.enqueue(QUEUE, drafts(1))
            assert listener.wait(LONG)
            assert not listener.wait(0)

    def test_another_queue_does_not_wake(self, store):
        with store.listen([QUEUE], "changes") as listener:
            store.enqueue(QueueKey("default", "other"), drafts(1))
            assert not listener.wait(0)

    def test_one_byte_wakes_one_claimer(self, store):
        with store.listen([QUEUE], "ready") as first, store.listen([QUEUE], "ready") as second:
            store.enqueue(QUEUE, drafts(1))
            assert [first.wait(0), second.wait(0)] == [True, False]

    def test_a_full_claim_wakes_the_next_worker(self, store):
        with store.listen([QUEUE], "ready") as first, store.listen([QUEUE], "ready") as second:
            store.enqueue(QUEUE, drafts(150))
            assert first.wait(LONG)
            store.claim(QUEUE, REQUEST)
            assert second.wait(LONG)

    def test_listeners_for_different_kinds_are_all_woken(self, store):
        mail, image = frozenset({"mail"}), frozenset({"image"})
        with (
            store.listen([QUEUE], "ready", mail) as first,
            store.listen([QUEUE], "ready", image) as second,
        ):
            store.enqueue(QUEUE, drafts(1))
            assert [first.wait(LONG), second.wait(LONG)] == [True, True]

    def test_all_listeners_are_notified_of_changes(self, store):
        with store.listen([QUEUE], "changes") as first, store.listen([QUEUE], "changes") as second:
            store.enqueue(QUEUE, drafts(1))
            assert [first.wait(LONG), second.wait(LONG)] == [True, True]

    def test_a_cancel_request_is_a_signal(self, store):
        store.enqueue(QUEUE, drafts(1))
        store.claim(QUEUE, REQUEST)
        with store.listen([QUEUE], "cancel_requests") as listener:
            assert not listener.wait(0)
            store.apply(QUEUE, [lifecycle.request_cancel("id0")])
            assert listener.wait(LONG)

    def test_the_fifo_of_a_dead_listener_is_removed(self, store, path, start):
        child = start("store.listen([queue], 'changes'); say('listening'); input()")
        assert child.stdout.readline() == "listening\n"
        folder = f"{path}-wake"
        assert len(os.listdir(folder)) == 1
        child.kill()
        child.wait()

        store.enqueue(QUEUE, drafts(1))

        assert os.listdir(folder) == []

    @pytest.mark.parametrize("topic", ["ready", "changes"])
    def test_another_process_is_woken(self, store, start, topic):
        child = start(
            "from ackline.stores.sqlite import notify\n"
            "notify.POLL_INTERVAL = 60.0\n"
            f"listener = store.listen([queue], '{topic}')\n"
            "say('listening')\n"
            "say(listener.wait(20))\n"
        )
        assert child.stdout.readline() == "listening\n"

        store.enqueue(QUEUE, drafts(1))

        assert child.stdout.readline() == "True\n"


def test_a_fifo_gets_its_name_once_it_has_a_reader(store, path, monkeypatch):
    """Otherwise a writer could remove it as the FIFO of a dead listener."""
    make = os.mkfifo

    def make_and_notify(fifo, mode):
        make(fifo, mode)
        store.enqueue(QUEUE, drafts(1))

    monkeypatch.setattr(os, "mkfifo", make_and_notify)
    monkeypatch.setattr(notify, "POLL_INTERVAL", 60.0)
    with store.listen([QUEUE], "changes") as listener:
        store.enqueue(QUEUE, drafts(1, 1))
        assert listener.wait(LONG)
    assert os.listdir(f"{path}-wake") == []


def test_abandoned_temporary_fifos_are_removed(store, path):
    with store.listen([QUEUE], "changes"):
        for name, age in (("new-old", 1000), ("new-young", 0)):
            fifo = f"{path}-wake/{name}"
            os.mkfifo(fifo)
            os.utime(fifo, (time.time() - age,) * 2)
        store.enqueue(QUEUE, drafts(1))
    assert os.listdir(f"{path}-wake") == ["new-young"]


def test_polling_recovers_a_lost_byte(store, engine, monkeypatch):
    monkeypatch.setattr(notify, "POLL_INTERVAL", 0.01)
    with store.listen([QUEUE], "ready") as listener:
        engine.write(lambda tx: enqueue(tx, QUEUE, drafts(1), 1.0))
        assert listener.wait(LONG)


def test_without_fifos_it_polls(store, monkeypatch):
    def refuse(*_):
        raise PermissionError("no FIFOs here")

    monkeypatch.setattr(os, "mkfifo", refuse)
    with store.listen([QUEUE], "ready") as listener:
        answer = waiting(listener)
        store.enqueue(QUEUE, drafts(1))
        assert answer()


def open_fifos(path: str) -> int:
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            found += os.readlink(f"/proc/self/fd/{number}").startswith(f"{path}-wake")
    return found


def test_many_queues_keep_few_files_open(store, path, monkeypatch):
    monkeypatch.setattr(notify, "MAX_OPEN_FIFOS", 2)
    queues = [QueueKey("default", f"mail{n}") for n in range(10)]

    for _ in range(2):
        for queue in queues:
            with store.listen([queue], "ready") as listener:
                store.enqueue(queue, drafts(1))
                assert listener.wait(0)
                store.purge(queue, Filter(), 10)

    assert open_fifos(path) == 2


def test_a_dropped_queue_leaves_no_fifo(store, path):
    with store.listen([QUEUE], "ready"):
        store.enqueue(QUEUE, drafts(1))
    store.purge(QUEUE, Filter(), 10)

    assert store.drop(QUEUE)

    assert os.listdir(f"{path}-wake") == []


@pytest.mark.usefixtures("without_polling")
def test_a_listener_of_a_dropped_queue_is_woken_when_it_is_created_again(store):
    with store.listen([QUEUE], "ready") as listener:
        store.enqueue(QUEUE, drafts(1))
        store.purge(QUEUE, Filter(), 10)
        store.drop(QUEUE)
        listener.wait(0)

        store.enqueue(QUEUE, drafts(1))

        assert listener.wait(LONG)


@pytest.mark.usefixtures("without_polling")
def test_a_fifo_created_again_is_found(store, path):
    for _ in range(2):
        with store.listen([QUEUE], "ready") as listener:
            store.enqueue(QUEUE, drafts(1))
            store.purge(QUEUE, Filter(), 10)
            assert listener.wait(0)
        for name in os.listdir(f"{path}-wake"):
            os.unlink(f"{path}-wake/{name}")


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
@pytest.mark.parametrize("topic", ["ready", "changes"])
def test_other_users_of_the_database_can_wake_listeners(store, path, mode, topic):
    before = os.umask(0o077)
    try:
        for allowed in (0o600, mode):
            os.chmod(path, allowed)
            with store.listen([QUEUE], topic):
                [name] = os.listdir(f"{path}-wake")
                found = stat.S_IMODE(os.stat(f"{path}-wake/{name}").st_mode)
    finally:
        os.umask(before)

    assert found == mode
    assert stat.S_IMODE(os.stat(f"{path}-wake").st_mode) == mode | (mode & 0o444) >> 2


@pytest.mark.usefixtures("without_polling")
def test_a_failing_fifo_does_not_affect_the_others(store, monkeypatch):
    opened = os.open
    refused: list[str] = []

    def refuse_the_first(path, *flags):
        if "-wake/" in path and not refused:
            refused.append(path)
            raise PermissionError(path)
        return opened(path, *flags)

    with store.listen([QUEUE], "changes") as first, store.listen([QUEUE], "changes") as second:
        monkeypatch.setattr(os, "open", refuse_the_first)
        store.enqueue(QUEUE, drafts(1))
        assert sorted([first.wait(0), second.wait(0)]) == [False, True]


def test_a_closed_store_cannot_be_listened_to(store, path):
    store.close()
    with pytest.raises(StoreClosed):
        store.listen([QUEUE], "ready")
    assert open_fifos(path) == 0


def test_hashes_are_unique():
    tags = {
        notify.queue_hash(QueueKey(*pair)) for pair in (("a", "b:c"), ("a:b", "c"), ("1", "1:a"))
    }
    assert len(tags) == 3


MANY = [QueueKey("default", f"queue {n}") for n in range(3000)]


class TestSubscription:
    """One FIFO for all subjects, with a message for each notification."""

    @staticmethod
    def folder(path):
        return [name for name in os.listdir(f"{path}-wake") if name.startswith("all.")]

    def test_there_is_a_fifo_only_while_there_are_subjects(self, store, path):
        with store.subscribe() as subscription:
            subscription.wait(0)
            assert self.folder(path) == []
            subscription.add((queue, "ready") for queue in MANY)
            assert len(subscription.wait(LONG)) == len(MANY)
            assert len(self.folder(path)) == 1
            subscription.remove((queue, "ready") for queue in MANY)
            subscription.wait(0)
            assert self.folder(path) == []

    def test_notifications_of_another_process_arrive(self, store, start):
        with store.subscribe() as subscription:
            subscription.add([(QUEUE, "ready"), (QUEUE, "changes"), (QUEUE, "finished")])
            assert len(subscription.wait(LONG)) == 3
            start("store.enqueue(queue, [Draft('a', 'mail', b'')])")

            notified = set(subscription.wait(LONG))
            while len(notified) < 2:
                notified |= set(subscription.wait(LONG))
            assert notified == {(QUEUE, "ready"), (QUEUE, "changes")}

    @pytest.mark.parametrize("at_once", [1, 7, 29])
    def test_a_full_fifo_means_that_anything_may_have_changed(
        self, store, path, monkeypatch, at_once
    ):
        monkeypatch.setattr(notify, "PIPE_BYTES", 4096)
        notifications: list[tuple[Topic, QueueKey]] = [("ready", queue) for queue in MANY[:at_once]]
        with store.subscribe() as subscription:
            subscription.add(("ready", queue)[::-1] for queue in MANY)
            subscription.wait(LONG)
            wakes = notify.FifoNotifier(path)
            for _ in range(1000):
                wakes.notify(notifications)

            assert subscription.wait(LONG) is None
            wakes.notify(notifications)
            assert set(subscription.wait(LONG)) == {(queue, "ready") for queue in MANY[:at_once]}

    def test_the_fifo_of_a_dead_subscription_is_removed(self, store, path, start):
        child = start(
            "subscription = store.subscribe()\n"
            "subscription.add([(queue, 'ready')])\n"
            "subscription.wait(0)\n"
            "say('listening'); input()"
        )
        assert child.stdout.readline() == "listening\n"
        assert len(self.folder(path)) == 1
        child.kill()
        child.wait()

        store.enqueue(QUEUE, drafts(1))

        assert self.folder(path) == []

    def test_without_fifos_it_polls_the_database(self, store, monkeypatch):
        def refuse(*_given):
            raise OSError("no FIFOs here")

        monkeypatch.setattr(os, "mkfifo", refuse)
        with store.subscribe() as subscription:
            subscription.add([(QUEUE, "ready")])
            while subscription.wait(0.1) or subscription.wait(0.1) is None:
                pass
            store.enqueue(QUEUE, drafts(1))

            assert subscription.wait(LONG) is None
