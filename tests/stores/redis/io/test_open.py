"""Which servers are accepted and which are refused, with which messages."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import redis.asyncio
import redis.sentinel
from msgspec.structs import replace
from tests.harness.servers.ports import HOST, free_port
from tests.harness.servers.redis import RedisServer
from tests.stores.redis.conftest import QUEUE, SOON, drafts
from tests.stores.redis.io.fake_server import INFO, FakeServer, array, bulk, error

import ackline
from ackline.core.errors import (
    AcklineError,
    ConfigError,
    StoreError,
    StoreMismatch,
    StoreUnavailable,
)
from ackline.stores.redis import store as store_module
from ackline.stores.redis.io.address import read_address
from ackline.stores.redis.key_names import SCHEMA
from ackline.stores.redis.safety import ServerFacts, combine_facts, health_issues

SECRET = "s3cr3t"


@pytest.fixture(scope="module")
def locked():
    """A server that requires a password."""
    with RedisServer(password=SECRET) as server:
        yield server


def refusal_of(open_store, url: str) -> AcklineError:
    """The error for a URL; it must not contain the password."""
    with pytest.raises((StoreError, ConfigError)) as refusal:
        open_store(url)
    assert SECRET not in "".join(traceback.format_exception(refusal.value))
    return refusal.value


class TestUnreachable:
    def test_nobody_listens(self, open_store):
        port = free_port()

        refusal = refusal_of(open_store, f"redis://:{SECRET}@{HOST}:{port}")

        assert isinstance(refusal, StoreUnavailable)
        assert f"redis at {HOST}:{port} cannot be reached" in str(refusal)

    def test_there_is_no_such_socket(self, open_store, tmp_path):
        refusal = refusal_of(open_store, f"redis+unix://{tmp_path}/absent.sock")

        assert isinstance(refusal, StoreUnavailable)
        assert "absent.sock cannot be reached" in str(refusal)

    def test_a_server_that_does_not_answer(self, open_store):
        with RedisServer() as server:
            server.pause()
            refusal = refusal_of(open_store, f"{server.url}?timeout=0.2")
            server.resume()

        assert isinstance(refusal, StoreUnavailable)
        assert "did not answer in time" in str(refusal)

    def test_a_server_without_tls(self, open_store, server):
        refusal = refusal_of(open_store, f"rediss://{HOST}:{server.port}?timeout=0.5")

        assert isinstance(refusal, StoreUnavailable)

    def test_no_sentinel_answers(self, open_store):
        port, began = free_port(), time.monotonic()

        refusal = refusal_of(open_store, f"redis+sentinel://:{SECRET}@{HOST}:{port}/main")

        assert isinstance(refusal, StoreUnavailable)
        assert time.monotonic() - began < 2.0, "sentinels are not asked again and again either"
        assert f"{HOST}:{port}" in str(refusal)
        assert "<redis." not in str(refusal), "the client's own words are for its developers"

    def test_sentinels_do_not_know_the_name(self, open_store):
        with FakeServer({"SENTINEL": array()}) as sentinel:
            refusal = refusal_of(open_store, f"redis+sentinel://{HOST}:{sentinel.port}/main")

        assert isinstance(refusal, StoreUnavailable)
        assert "main" in str(refusal)

    def test_a_server_that_is_not_a_sentinel(self, open_store, server):
        refusal = refusal_of(open_store, f"redis+sentinel://{HOST}:{server.port}/main")

        assert "not a sentinel" in str(refusal)

    def test_a_server_that_is_not_a_cluster(self, open_store, server):
        refusal = refusal_of(open_store, f"redis+cluster://{HOST}:{server.port}")

        assert "redis://" in str(refusal)

    def test_no_node_of_a_cluster_answers(self, open_store):
        refusal = refusal_of(open_store, f"redis+cluster://:{SECRET}@{HOST}:{free_port()}")

        assert isinstance(refusal, StoreUnavailable)


class TestPasswords:
    def test_the_right_one(self, open_store, locked):
        store = open_store(locked.url)

        assert store.enqueue(QUEUE, drafts(1))[0].accepted
        assert SECRET not in f"{store.info()}"
        assert f"{HOST}:{locked.port}" in store.info().location

    def test_a_wrong_one(self, open_store, locked):
        refusal = refusal_of(open_store, f"redis://:{SECRET}no@{HOST}:{locked.port}")

        assert not isinstance(refusal, StoreUnavailable), "trying again does not help"
        assert "wrong user or password" in str(refusal)

    def test_a_wrong_user(self, open_store, locked):
        refusal = refusal_of(open_store, f"redis://ann:{SECRET}@{HOST}:{locked.port}")

        assert not isinstance(refusal, StoreUnavailable)
        assert "wrong user or password" in str(refusal)

    def test_a_missing_one(self, open_store, locked):
        refusal = refusal_of(open_store, f"redis://{HOST}:{locked.port}")

        assert not isinstance(refusal, StoreUnavailable)
        assert "PASSWORD@HOST" in str(refusal)

    def test_an_unnecessary_one(self, open_store, server):
        refusal = refusal_of(open_store, f"redis://:{SECRET}@{HOST}:{server.port}")

        assert not isinstance(refusal, StoreUnavailable)
        assert "password" in str(refusal)

    def test_a_user_without_permission(self, open_store, server, client, prefix):
        rights = ["allchannels", "+@all", "-eval", "-evalsha"]
        client.acl_setuser("bob", enabled=True, passwords=[f"+{SECRET}"], keys="*")
        client.execute_command("ACL", "SETUSER", "bob", *rights)

        store = open_store(f"redis://bob:{SECRET}@{HOST}:{server.port}?prefix={prefix}")

        with pytest.raises(StoreError, match="permission denied"):
            store.enqueue(QUEUE, drafts(1))

    def test_a_user_who_may_not_publish(self, open_store, server, client, prefix):
        """Since 7.0, users have no channels by default."""
        rights = [f">{SECRET}", f"~{prefix}:*", "+@all", "resetchannels"]
        client.execute_command("ACL", "SETUSER", "eve", "on", *rights)

        def open_and_enqueue() -> None:
            store = open_store(f"redis://eve:{SECRET}@{HOST}:{server.port}?prefix={prefix}")
            store.enqueue(QUEUE, drafts(1))

        with pytest.raises(StoreError, match=f"&{prefix}:"):
            open_and_enqueue()

        assert not client.exists(f"{prefix}:{{default/mail}}:job"), "stored, and yet refused"


class TestDatabases:
    def test_an_existing_number(self, open_store, server, prefix):
        store = open_store(f"redis://{HOST}:{server.port}/5?prefix={prefix}")

        store.enqueue(QUEUE, drafts(1))

        assert store.info().location.endswith(", database 5")
        with server.client(db=5) as five, server.client() as zero:
            assert five.exists(f"{prefix}:queues")
            assert not zero.exists(f"{prefix}:queues")

    def test_a_number_that_does_not_exist(self, open_store, server):
        refusal = refusal_of(open_store, f"redis://{HOST}:{server.port}/99")

        assert "it has no database with this number" in str(refusal)


class TestNoLongerSafe:
    """A server's settings may change while stores are open."""

    @pytest.fixture(autouse=True)
    def _look_at_once(self, monkeypatch):
        monkeypatch.setattr(store_module, "FACTS_TTL", -1.0)

    def test_a_server_that_starts_to_evict(self, store, client):
        assert store.info().issues == ()
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            [issue] = store.info().issues
        finally:
            client.config_set("maxmemory-policy", "noeviction")

        assert (issue.code, issue.critical) == ("eviction", True)
        assert issue.advice == "CONFIG SET maxmemory-policy noeviction"
        assert store.info().issues == ()

    @pytest.mark.parametrize("asked_for", ["", "?durability=everysec", "?fsync=yes"])
    def test_a_server_that_becomes_less_durable(self, open_store, asked_for):
        says = {
            "": "its durability is none, but was always when the store was opened",
            "?durability=everysec": "has durability none, but the URL requires everysec",
            "?fsync=yes": "has no append-only file to sync",
        }
        with RedisServer(persistence="always") as server, server.client() as client:
            if "fsync" in asked_for and "waitaof" not in client.command_list():
                pytest.skip("this server has no WAITAOF: a store with fsync=yes does not open")
            store = open_store(f"{server.url}{asked_for}")
            assert store.info().issues == ()
            client.config_set("appendonly", "no")
            info = store.info()

        [issue] = info.issues
        assert (issue.code, issue.critical) == ("durability", True)
        assert says[asked_for] in issue.message
        assert info.durability.startswith("none: ")

    def test_more_durability_than_required_is_no_issue(self, open_store):
        with RedisServer(persistence="always") as server, server.client() as client:
            store = open_store(f"{server.url}?durability=everysec")
            client.config_set("appendonly", "no")
            store.close()
            client.config_set("appendonly", "yes")
            client.config_set("appendfsync", "everysec")
            store.open()

            assert store.info().issues == ()
            server.kill()  # a shutdown would first finish the log that was just started


class TestUnsafe:
    def test_a_server_that_evicts(self, open_store, url, client):
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            refusal = refusal_of(open_store, url)
        finally:
            client.config_set("maxmemory-policy", "noeviction")

        assert isinstance(refusal, ConfigError)
        assert "CONFIG SET maxmemory-policy noeviction" in str(refusal)
        assert open_store()

    @pytest.mark.parametrize("wanted", ["everysec", "always"])
    def test_a_server_without_persistence(self, open_store, url, wanted):
        refusal = refusal_of(open_store, f"{url}&durability={wanted}")

        assert isinstance(refusal, ConfigError)
        assert f"set appendonly yes and appendfsync {wanted}, or require less" in str(refusal)

    def test_a_server_less_durable_than_required(self, open_store):
        with RedisServer(persistence="everysec") as server:
            enough = open_store(f"{server.url}?durability=everysec")
            refusal = refusal_of(open_store, f"{server.url}?durability=always")

            assert isinstance(refusal, ConfigError)
            assert "has durability everysec, but the URL requires always" in str(refusal)
            assert enough.info().durability.startswith("everysec: ")

    def test_a_durable_server(self, open_store):
        with RedisServer(persistence="always") as server:
            store = open_store(f"{server.url}?durability=always")

            assert store.info().durability.startswith("always: ")

    def test_one_unsafe_node_is_enough(self):
        facts = ServerFacts(
            where="redis at one",
            product="valkey",
            version="9.0",
            role="master",
            policy="noeviction",
            maxmemory=100,
            durability="always",
            fsync_known=True,
            replicas=1,
            used_memory=10,
            clustered=True,
        )
        address = read_address("redis+cluster://one?durability=everysec")
        other = replace(facts, where="redis at other", durability="none", policy="allkeys-lru")

        assert health_issues([facts, facts], address, "always") == ()
        assert combine_facts([facts, other]).durability == "none"
        assert combine_facts([facts, other]).used_memory == 20
        eviction, durability = health_issues([facts, other], address, "always")
        assert eviction.message.startswith("redis at other has maxmemory-policy allkeys-lru")
        assert (
            durability.message
            == "redis at other has durability none, but the URL requires everysec"
        )

    def test_no_durability_is_required(self, open_store, url):
        store = open_store(f"{url}&durability=none")

        assert store.info().durability.startswith("none: ")

    @pytest.mark.parametrize(
        ("versions", "words"),
        [
            ("redis_version:6.0.16", "is redis 6.0.16: version 6.2 or newer is required"),
            ("redis_version:5.0", "is redis 5.0: version 6.2 or newer is required"),
            ("redis_version:7.2.4\nvalkey_version:7.0.1", "is valkey 7.0.1: version 7.2 or newer"),
        ],
    )
    def test_a_server_that_is_too_old(self, open_store, versions, words):
        info = bulk(f"{versions}\nrole:master\nmaxmemory_policy:noeviction\n")
        with FakeServer({"INFO": info}) as old:
            refusal = refusal_of(open_store, f"redis://{HOST}:{old.port}")

        assert words in str(refusal)
        assert old.times("SETNX") == 0

    def test_a_server_that_cannot_wait_for_a_sync(self, open_store):
        """Before anything is stored: otherwise changes would be made and then fail."""
        info = bulk("redis_version:7.0.15\nrole:master\nmaxmemory_policy:noeviction\n")
        with FakeServer({"INFO": info}) as old:
            refusal = refusal_of(open_store, f"redis://{HOST}:{old.port}?fsync=yes")

        assert "7.2" in str(refusal)

    @pytest.mark.parametrize("hidden", [error("NOPERM no"), error("ERR unknown command 'CONFIG'")])
    def test_a_server_that_hides_its_settings(self, open_store, hidden):
        answers = {"INFO": bulk(f"{INFO}aof_enabled:1\n"), "CONFIG": hidden}
        with FakeServer(answers) as hosted:
            store = open_store(f"redis://{HOST}:{hosted.port}?durability=everysec")
            refusal = refusal_of(open_store, f"redis://{HOST}:{hosted.port}?durability=always")
            store.close()

        assert "has durability everysec, but the URL requires always" in str(refusal)


class TestForeign:
    @pytest.mark.parametrize("kind", ["text", "hash", "list"])
    def test_keys_of_another_program_are_refused_and_not_touched(
        self, open_store, client, prefix, kind
    ):
        match kind:
            case "text":
                client.set(f"{prefix}:schema", "theirs")
            case "hash":
                client.hset(f"{prefix}:schema", "theirs", "1")
            case _:
                client.rpush(f"{prefix}:queues", "theirs")
        before = dump(client, prefix)

        with pytest.raises(StoreMismatch, match="prefix="):
            open_store()

        assert dump(client, prefix) == before

    def test_a_newer_schema_is_refused_and_not_touched(self, open_store, client, prefix):
        client.set(f"{prefix}:schema", SCHEMA + 1)

        with pytest.raises(StoreMismatch, match="newer"):
            open_store()

        assert dump(client, prefix).keys() == {f"{prefix}:schema"}

    def test_a_conflicting_key_of_another_program(self, store, client, prefix):
        client.set(f"{prefix}:{{default/mail}}:job", "theirs")

        with pytest.raises(StoreMismatch, match="prefix="):
            store.enqueue(QUEUE, drafts(1))

        assert client.get(f"{prefix}:{{default/mail}}:job") == "theirs"
        assert sum(store.describe(None)[0].counts.values()) == 0
        assert store.events(QUEUE, None, 10) == []

    def test_two_stores_that_open_at_the_same_time(self, open_store, monkeypatch):
        """What the other store writes meanwhile is not mistaken for another program's."""
        look = redis.Redis.type
        others: list[None] = []

        def open_another_first(client: redis.Redis, key: str) -> object:
            if not others and key.endswith(":queues"):
                others.append(None)
                open_store().enqueue(QUEUE, drafts(1))
            return look(client, key)

        monkeypatch.setattr(redis.Redis, "type", open_another_first)

        assert open_store().get(QUEUE, ["id0"])[0] is not None

    def test_two_prefixes_are_separate(self, open_store, server, prefix):
        one = open_store()
        other = open_store(f"{server.url}?prefix={prefix}:x")

        one.enqueue(QUEUE, drafts(2))

        assert other.describe(None) == []
        assert other.enqueue(QUEUE, drafts(1))[0].accepted


def dump(client, prefix: str) -> dict[str, object]:
    return {key: (client.type(key), client.memory_usage(key)) for key in client.keys(f"{prefix}*")}


def test_a_refused_open_leaves_nothing_behind(open_store, server, client, prefix):
    before = client.info("clients")["connected_clients"]
    url = f"redis://{HOST}:{server.port}?prefix={prefix}&durability=always"

    for _ in range(5):
        refusal_of(open_store, url)

    server.wait_for("the end", lambda: client.info("clients")["connected_clients"] <= before)
    assert client.keys(f"{prefix}*") == []


def test_hundreds_of_threads_call_at_the_same_time(store):
    """More than the client's own pool would allow connections."""
    count = 150
    ready = threading.Barrier(count)

    def enqueue(n: int) -> bool:
        ready.wait(SOON)
        return bool(store.enqueue(QUEUE, drafts(1, start=n))[0].accepted)

    with ThreadPoolExecutor(count) as threads, contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(store.listen([QUEUE], "changes"))
        assert all(threads.map(enqueue, range(count)))


class TestExistingClient:
    """`RedisStorage({ client })`: an existing client instead of host and port."""

    def test_a_client_gives_its_server_and_credentials(self, locked):
        client = redis.Redis(host=HOST, port=locked.port, password=SECRET, decode_responses=True)

        with ackline.open(client) as queues:
            assert queues["email"].enqueue(1, id="a").id == "a"
            assert queues["email"].enqueue_many([2, 3])

        assert client.ping()
        client.close()

    def test_closing_the_store_leaves_the_client_open(self, client):
        queues = ackline.open(client)
        before = client.connection_pool.get_connection()

        queues.close()

        assert before.can_read() is False
        assert before.is_connected
        client.connection_pool.release(before)

    @pytest.mark.parametrize("make", [redis.asyncio.Redis, redis.sentinel.Sentinel([]).master_for])
    def test_other_clients_are_refused(self, make):
        given = make("name") if make is not redis.asyncio.Redis else make()

        with pytest.raises(ConfigError, match="open the store by its URL"):
            ackline.open(given)
