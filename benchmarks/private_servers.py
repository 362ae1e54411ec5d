"""The private servers that the tests use, for the benchmarks as well."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.redis import RedisServer

__all__ = ["PostgresServer", "RedisServer"]
