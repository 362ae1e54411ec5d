"""The same rules on a master that a sentinel names."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.servers.redis_sentinel import RedisSentinel

from ackline.core.clock import Clock
from ackline.stores.contract import Store
from ackline.stores.redis import RedisStore
from ackline.stores.redis.io.address import read_address
from ackline.testing.conformance import StoreConformance

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sentinel() -> Iterator[RedisSentinel]:
    with RedisSentinel() as servers:
        yield servers


class TestRedisSentinel(StoreConformance):
    @pytest.fixture(autouse=True)
    def _sentinel(self, sentinel: RedisSentinel) -> None:
        self.sentinel = sentinel

    def make_store(self, clock: Clock, path: Path) -> Store:
        return RedisStore(read_address(f"{self.sentinel.url}?prefix={path.name}"), clock)
