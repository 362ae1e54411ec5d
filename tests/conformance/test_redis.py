from pathlib import Path

import pytest
from tests.harness.servers.redis import RedisServer

from ackline.core.clock import Clock
from ackline.stores.contract import Store
from ackline.stores.redis import RedisStore
from ackline.stores.redis.io.address import read_address
from ackline.testing.conformance import StoreConformance


class TestRedis(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, redis_server: RedisServer) -> None:
        self.server = redis_server

    def make_store(self, clock: Clock, path: Path) -> Store:
        # Every case has a folder of its own, and so a prefix of its own.
        return RedisStore(read_address(f"{self.server.url}?prefix={path.name}"), clock)
