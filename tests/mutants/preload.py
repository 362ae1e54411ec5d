"""Imports what the tests need besides the source; tests of mutants run in forks of this process."""

from __future__ import annotations

import contextlib
import gc
import importlib
from importlib.metadata import entry_points

from tests.harness.servers.errors import NoServerProgram
from tests.harness.servers.postgres_programs import empty_data

THIRD_PARTY = [
    "hypothesis.stateful",
    "hypothesis.strategies",
    "litestar.testing",
    "msgspec",
    "opentelemetry.sdk.trace",
    "prometheus_client",
    "psycopg_pool",
    "pyarrow.parquet",
    "pyspark.sql.datasource",
    "redis.asyncio",
    "redis.cluster",
    "redis.sentinel",
    "tests.harness.servers.postgres",
    "tests.harness.servers.redis",
    "typer.testing",
    "uvicorn",
]

gc.disable()  # all of this is kept
for plugin in entry_points(group="pytest11"):
    plugin.load()
for name in THIRD_PARTY:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
with contextlib.suppress(NoServerProgram):
    empty_data()  # initdb takes seconds
gc.freeze()
gc.enable()
