"""Why the store does not let the client retry: the server may have executed the command."""

import redis

from tests.harness.faults.proxy import Proxy
from tests.harness.servers.redis import RedisServer


def test_the_default_client_runs_a_command_twice():
    with RedisServer() as server, Proxy(server.address) as proxy:
        host, port = proxy.address
        with redis.Redis(host=host, port=port) as client:
            client.ping()
            proxy.cut_next("after", matching=b"INCR")

            assert client.incr("counter") == 2

        with server.client() as client:
            assert client.get("counter") == "2"
            client.set("counter", 0)

        with server.client(port=port) as client:
            client.ping()
            proxy.cut_next("after", matching=b"INCR")
            try:
                client.incr("counter")
            except redis.ConnectionError:
                pass
            else:
                raise AssertionError("the cut went unnoticed")

        with server.client() as client:
            assert client.get("counter") == "1"
