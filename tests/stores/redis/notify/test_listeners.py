"""Listeners reconnect, and leave nothing open."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import select
import socket
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest
import redis
from tests.harness.faults.proxy import Proxy
from tests.harness.servers.ports import HOST
from tests.harness.servers.redis import RedisServer
from tests.stores.redis.conftest import QUEUE, SOON, drafts

from ackline.core.errors import StoreError, StoreUnavailable
from ackline.stores.contract import Listener
from ackline.stores.redis import notify


def waiting(listener: Listener) -> Callable[[], bool]:
    """Start to wait in a thread; returns a function for the answer."""
    answers: list[bool] = []
    began = threading.Event()

    def wait() -> None:
        began.set()
        answers.append(listener.wait(SOON))

    thread = threading.Thread(target=wait)
    thread.start()
    began.wait()

    def answer() -> bool:
        thread.join()
        return answers[0]

    return answer


def is_woken_by(listener: Listener, act: Callable[[], object]) -> bool:
    """Whether a waiting listener is woken by an act."""
    while listener.wait(0.15):
        pass
    answer = waiting(listener)
    act()
    return answer()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def refuses(client: redis.Redis) -> bool:
    try:
        client.ping()
    except redis.ResponseError:
        return True
    return False


def subscribers(client: redis.Redis) -> int:
    return len(client.client_list(_type="pubsub"))


class TestWaking:
    def test_wakes_do_not_pile_up(self, store):
        with store.listen([QUEUE], "ready") as listener:
            for _ in range(100_000):
                listener.wake()
            assert any(not listener.wait(0) for _ in range(100))

    def test_all_listeners_are_notified_of_a_change(self, store):
        with contextlib.ExitStack() as stack:
            listeners = [stack.enter_context(store.listen([QUEUE], "changes")) for _ in range(50)]
            store.enqueue(QUEUE, drafts(1))
            assert all(listener.wait(SOON) for listener in listeners)

    def test_a_listener_for_a_queue_that_is_created_later(self, store):
        with store.listen([QUEUE], "ready") as listener:
            assert not listener.wait(0)
            store.enqueue(QUEUE, drafts(1))
            assert listener.wait(SOON)

    def test_another_store_of_the_same_server_wakes(self, store, open_store):
        with store.listen([QUEUE], "ready") as listener:
            open_store().enqueue(QUEUE, drafts(1))
            assert listener.wait(SOON)


class TestBroken:
    def test_a_killed_connection_ends_the_wait_and_is_restored(self, store, client):
        with store.listen([QUEUE], "ready") as listener:
            answer = waiting(listener)
            client.client_kill_filter(_type="pubsub")

            assert answer(), "what was missed is unknown, so it is time to look"
            assert is_woken_by(listener, lambda: store.enqueue(QUEUE, drafts(1)))

    @pytest.mark.parametrize("topic", ["ready", "changes"])
    def test_a_connection_killed_while_nobody_waits(self, store, client, topic):
        with store.listen([QUEUE], topic) as listener:
            client.client_kill_filter(_type="pubsub")
            store.enqueue(QUEUE, drafts(1))

            assert listener.wait(SOON)

    def test_a_ping_that_is_answered_by_an_error(self, open_store, monkeypatch):
        """As by a server that could not save its data: until it can, all answers are errors."""
        monkeypatch.setattr(notify, "PING_INTERVAL", 0.1)
        with RedisServer(dbfilename="folder") as server, server.client() as client:
            store = open_store(server.url)
            store.enqueue(QUEUE, drafts(1))
            with store.listen([QUEUE], "changes") as listener:
                in_the_way = server.folder / "folder" / "full"
                in_the_way.mkdir(parents=True)
                client.config_set("save", "3600 1")
                client.bgsave()
                server.wait_for("a refusal", lambda: refuses(client))
                for _ in range(3):
                    listener.wait(0.3)
                in_the_way.rmdir()
                in_the_way.parent.rmdir()
                client.bgsave()
                server.wait_for("an answer", lambda: not refuses(client))

                assert is_woken_by(listener, lambda: store.enqueue(QUEUE, drafts(1, start=1)))

    def test_all_listeners_reconnect_after_a_kill(self, store, client):
        with contextlib.ExitStack() as stack:
            listeners = [stack.enter_context(store.listen([QUEUE], "changes")) for _ in range(10)]
            client.client_kill_filter(_type="pubsub")
            assert all(listener.wait(SOON) for listener in listeners)
            assert all(listener.wait(SOON) for listener in listeners)
            assert subscribers(client) == 10

            store.enqueue(QUEUE, drafts(1))

            assert all(listener.wait(SOON) for listener in listeners)

    @pytest.mark.parametrize("kept", [True, False])
    def test_a_restart_of_the_server(self, open_store, kept):
        """Whether or not its data survives, including requested wake-ups."""
        with RedisServer(persistence="always" if kept else "none") as server:
            store = open_store(server.url)
            store.enqueue(QUEUE, drafts(1))
            with store.listen([QUEUE], "ready") as listener:
                store.enqueue(QUEUE, drafts(1, start=1))
                answer = waiting(listener)
                server.restart()
                assert answer()

                assert is_woken_by(listener, lambda: store.enqueue(QUEUE, drafts(1, start=2)))
            store.close()

    def test_a_server_outage(self, open_store, server, prefix):
        with Proxy(server.address) as proxy:
            store = open_store("redis://{}:{}?prefix={}".format(*proxy.address, prefix))
            with store.listen([QUEUE], "ready") as listener:
                proxy.refuse()
                proxy.cut_all()
                assert listener.wait(SOON), "the connection broke"
                for _ in range(3):
                    assert listener.wait(SOON) in (True, False), "it tries again"

                proxy.accept()

                assert is_woken_by(listener, lambda: store.enqueue(QUEUE, drafts(1)))

    @pytest.mark.parametrize(("waits", "each"), [(1, 3.0), (60, 0.05)])
    def test_a_silently_dead_connection_is_noticed(
        self, open_store, server, prefix, monkeypatch, waits, each
    ):
        """A host that has vanished closes no connection, so silence has to be noticed."""
        monkeypatch.setattr(notify, "PING_INTERVAL", 0.1)
        with Proxy(server.address) as proxy:
            store = open_store("redis://{}:{}?prefix={}".format(*proxy.address, prefix))
            with store.listen([QUEUE], "ready") as listener:
                proxy.stall()

                noticed = any(listener.wait(each) for _ in range(waits))

                proxy.resume()
            assert noticed

    def test_a_quiet_connection_is_kept(self, store, client, monkeypatch):
        monkeypatch.setattr(notify, "PING_INTERVAL", 0.02)
        with store.listen([QUEUE], "ready") as listener:
            before = [each["id"] for each in client.client_list(_type="pubsub")]

            assert not listener.wait(0.15)

            assert [each["id"] for each in client.client_list(_type="pubsub")] == before

    def test_more_than_a_thousand_descriptors(self, store, client):
        """As in a process with many connections."""
        with many_descriptors(1100), store.listen([QUEUE], "ready") as listener:
            client.client_kill_filter(_type="pubsub")
            assert listener.wait(SOON)

            assert is_woken_by(listener, lambda: store.enqueue(QUEUE, drafts(1)))


@contextlib.contextmanager
def many_descriptors(count: int) -> Iterator[None]:
    """The next descriptors have higher numbers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * count:
        pytest.skip("this system does not allow as many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * count), hard))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    while opened[-1] < count:
        opened.append(os.dup(opened[0]))
    try:
        yield
    finally:
        for number in opened:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class TestClosing:
    def test_closing_ends_the_wait(self, store):
        listener = store.listen([QUEUE], "ready")
        answer = waiting(listener)
        listener.close()
        assert answer()

    def test_closing_the_store_ends_the_wait(self, store):
        answer = waiting(store.listen([QUEUE], "ready"))
        store.close()
        assert answer()

    def test_a_closed_listener_does_not_wait(self, store):
        listener = store.listen([QUEUE], "ready")
        listener.close()
        assert listener.wait(SOON)

    def test_a_late_wake_writes_to_no_other_file(self, store):
        """The descriptors of a closed listener may belong to another file by then."""
        listener = store.listen([QUEUE], "ready")
        listener.close()
        with contextlib.ExitStack() as stack:
            pairs = [socket.socketpair() for _ in range(5)]
            ends = [stack.enter_context(end) for pair in pairs for end in pair]

            listener.wake()

            assert not select.select(ends, [], [], 0)[0]

    def test_nothing_is_left_open(self, store, server, client):
        with store.listen([QUEUE], "ready"):
            pass
        before = descriptors()

        for _ in range(20):
            with store.listen([QUEUE], "ready") as listener:
                listener.wait(0)

        assert descriptors() == before
        server.wait_for("the end of all", lambda: subscribers(client) == 0)

    def test_nothing_of_a_broken_connection_is_left_open(self, store, server, client):
        with store.listen([QUEUE], "ready") as listener:
            open_now = []
            for _ in range(5):
                client.client_kill_filter(_type="pubsub")
                while subscribers(client) == 0:
                    assert listener.wait(SOON)
                open_now.append(descriptors())

            assert max(open_now) - min(open_now) <= 1, "the pool may keep one more"
        server.wait_for("the end of all", lambda: subscribers(client) == 0)

    def test_a_user_who_may_not_subscribe_gets_an_error(self, open_store, server, client, prefix):
        rights = [">secret", f"~{prefix}:*", "+@all", "resetchannels"]
        client.execute_command("ACL", "SETUSER", "unprivileged", "on", *rights)

        def open_and_listen() -> None:
            store = open_store(f"redis://unprivileged:secret@{HOST}:{server.port}?prefix={prefix}")
            store.listen([QUEUE], "changes")

        with pytest.raises(StoreError):
            open_and_listen()

    def test_nothing_of_a_failed_listener_is_left_open(self, open_store):
        with RedisServer() as server:
            store = open_store(server.url)
            server.kill()
            with pytest.raises(StoreUnavailable):
                store.listen([QUEUE], "ready")
            before = descriptors()

            for _ in range(5):
                with pytest.raises(StoreUnavailable):
                    store.listen([QUEUE], "ready")

            assert descriptors() == before

    def test_a_store_forgets_listeners_that_were_closed(self, store):
        listener = store.listen([QUEUE], "ready")
        seen = weakref.ref(listener)

        listener.close()
        del listener
        gc.collect()

        assert seen() is None
