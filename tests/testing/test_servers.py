"""Private servers: up in a moment, themselves through kills and restarts, gone at the end."""

import os
import signal
import socket
import subprocess
import sys

import psycopg
import pytest
import redis

from tests.harness.faults.processes import wait_for
from tests.harness.servers import ports
from tests.harness.servers import server as module
from tests.harness.servers.errors import NoServerProgram, ServerNotStarted
from tests.harness.servers.ports import free_port
from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.postgres_standby import PostgresStandby
from tests.harness.servers.redis import RedisServer
from tests.harness.servers.redis_cluster import RedisCluster
from tests.harness.servers.redis_program import VARIABLE, redis_program
from tests.harness.servers.redis_replication import promote, wait_until_synced
from tests.harness.servers.redis_sentinel import RedisSentinel


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ports.HOST, port)) == 0


def test_it_answers_at_its_url_and_is_gone_afterwards():
    with RedisServer() as server:
        pid, folder = server.pid, server.folder
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()

    assert not is_running(pid)
    assert not folder.exists()


def test_a_postgresql_server_keeps_its_data_through_a_crash_and_is_gone_afterwards():
    with PostgresServer(fsync=True) as server:
        url, pid, folder = server.url, server.pid, server.folder
        with server.connect() as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        server.stop_immediately()
        assert not is_running(pid)
        server.restart()
        assert server.url == url
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]
        pid = server.pid

    assert not is_running(pid)
    assert not folder.exists()


def test_a_standby_follows_and_can_be_promoted():
    with PostgresServer() as primary, PostgresStandby(primary) as standby:
        with primary.connect() as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        standby.wait_until_caught_up()
        with standby.connect() as connection:
            assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                connection.execute("DELETE FROM kept")
        standby.promote()
        with standby.connect() as connection:
            assert connection.execute("DELETE FROM kept").rowcount == 1


def test_a_password_and_a_unix_socket():
    with RedisServer(password="a:b/c @", unix_socket=True) as server:
        assert server.url == f"redis+unix://:a%3Ab%2Fc%20%40@{server.socket}"
        with server.client() as client:
            assert client.ping()
        with server.client(password=None) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()


@pytest.mark.parametrize(("persistence", "kept"), [("always", "1"), ("none", None)])
def test_killed_and_restarted_it_has_what_it_kept(persistence, kept):
    with RedisServer(persistence=persistence) as server:
        before = server.url, server.pid
        with server.client() as client:
            client.set("key", 1)
        server.kill()
        server.restart()

        assert server.url == before[0]
        assert server.pid != before[1]
        with server.client() as client:
            assert client.get("key") == kept


def test_paused_it_answers_nothing():
    with RedisServer() as server, server.client(socket_timeout=0.05) as client:
        server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.resume()
        with server.client() as patient:
            assert patient.ping()


def test_full_it_refuses():
    with (
        RedisServer(maxmemory=1) as server,
        server.client() as client,
        pytest.raises(redis.OutOfMemoryError),
    ):
        client.set("key", 1)


def test_a_replica_has_its_masters_data_and_can_be_promoted():
    with RedisServer(password="secret") as master, RedisServer(replica_of=master) as replica:
        wait_until_synced(replica)
        with master.client() as client:
            client.set("key", 1)
            assert client.wait(1, 5000) == 1
        master.kill()
        promote(replica)
        with replica.client() as client:
            assert client.get("key") == "1"
            assert client.set("key", 2)


def test_a_folder_of_yours_is_kept(tmp_path):
    with RedisServer(folder=tmp_path / "mine") as server:
        assert server.log.parent == tmp_path / "mine"

    assert "Ready to accept connections" in server.log.read_text()


def test_a_port_that_is_taken_is_left_to_its_owner(monkeypatch):
    with RedisServer() as first:
        offered = iter([first.port, free_port()])
        monkeypatch.setattr(module, "free_port", lambda: next(offered))
        with RedisServer() as second:
            assert second.port != first.port
            assert second.pid != first.pid


def test_a_free_port_is_not_one_of_the_clients_ports():
    assert ports.LOWEST <= free_port() < ports.HIGHEST


def test_a_server_that_does_not_start_shows_its_log():
    server = RedisServer(maxmemory_policy="nonsense")

    with pytest.raises(ServerNotStarted, match="nonsense"):
        server.start()
    assert not server.folder.exists()


PARENT = """
import os, signal, sys
from pathlib import Path
from tests.harness.servers.redis import RedisServer
server = RedisServer(folder=Path(sys.argv[1])).start()
print(server.port, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_dies_with_the_process_that_started_it(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", PARENT, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert run.returncode == -signal.SIGKILL, run.stderr
    wait_for("its end", lambda: not is_listening(int(run.stdout)))


def test_the_environment_names_the_program(monkeypatch):
    monkeypatch.setenv(VARIABLE, sys.executable)
    assert str(redis_program()) == sys.executable

    monkeypatch.setenv(VARIABLE, "/no/such/program")
    with pytest.raises(NoServerProgram, match="/no/such/program"):
        redis_program()


def test_without_a_program_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tests.harness.servers.redis_program.WHEEL", "no-such-wheel")

    with pytest.raises(NoServerProgram, match="no-such-wheel"):
        redis_program()


def test_a_program_on_the_path_goes_before_the_wheel(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    assert redis_program() == program


@pytest.mark.slow
def test_a_cluster_agrees():
    with RedisCluster() as cluster:
        host, port = cluster.servers[0].address
        with redis.RedisCluster(host=host, port=port) as client:
            for number in range(30):
                client.set(f"key-{number}", number)
            assert client.get("key-7") == b"7"
        sizes = []
        for server in cluster.servers:
            with server.client() as client:
                sizes.append(client.dbsize())

    assert sum(sizes) == 30
    assert all(sizes)


@pytest.mark.slow
def test_a_sentinel_promotes_the_replica():
    with RedisSentinel() as servers:
        with servers.master.client() as client:
            client.set("key", 1)
            client.wait(1, 5000)
        old = servers.master.port

        servers.promote()

        assert servers.sentinel.master_port() == servers.master.port != old
        with servers.master.client() as client:
            assert client.get("key") == "1"
