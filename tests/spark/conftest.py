"""Stores of every kind with a clock of their own, and one Spark for all tests that need it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ackline.core.clock import ManualClock
from ackline.queues import Queues
from ackline.stores.registry import store_from_url
from tests.spark.support.clocked_address import TestAddress
from tests.store_choice import choose_stores

FOR_FEW_ROWS = {
    # Java that lives for some minutes is faster when it compiles less, and does not collect in
    # threads of their own.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # To compile a plan takes far longer than to interpret it for a few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings of Spark for what is not a long campaign."""


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process runs all that need Spark, which takes long to start."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, "sqlite", "redis", "postgres")


@pytest.fixture
def url(store_url: str) -> str:
    return store_url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def connect(url: str, clock: ManualClock) -> Iterator[Callable[[], Queues]]:
    """Opens the store by the test's clock, as often as there are drivers."""
    opened: list[Queues] = []

    def call() -> Queues:
        store = store_from_url(url, clock)
        store.open()
        opened.append(Queues(store))
        return opened[-1]

    yield call
    for queues in opened:
        queues.close()


@pytest.fixture
def queues(connect: Callable[[], Queues]) -> Queues:
    return connect()


@pytest.fixture
def address(connect: Callable[[], Queues]) -> TestAddress:
    return TestAddress(connect)


@pytest.fixture(scope="session")
def spark(request, tmp_path_factory):
    """One Spark for all tests of a process; it takes some seconds to start."""
    from ackline.spark.runtime.session import spark_session

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    few_rows = request.config.option.markexpr != "slow"
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = spark_session(
        "local[2]",
        name="ackline tests",
        settings=warehouse | (FOR_FEW_ROWS if few_rows else {}),
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def sample_lake(spark, tmp_path_factory):
    """A lake that was taken in by three batches, for all who only look at it."""
    from tests.spark.support.lake_and_store import in_three_batches

    side = in_three_batches(spark, tmp_path_factory.mktemp("lakeside"))
    yield side
    side.queues.close()
