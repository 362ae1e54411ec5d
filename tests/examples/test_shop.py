"""The example of a shop, on the stores that processes can share."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.servers.postgres import PostgresServer
from tests.waiting import until

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def database_url(store_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if store_name != "postgres":
        return f"sqlite:///{tmp_path}/shop.sqlite3"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.connect() as plain:
        plain.execute("DROP TABLE IF EXISTS orders")
    return server.url.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def modules(
    database_url: str, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Any]]:
    """Imports a module of the shop, configured for the store of the test."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("ACKLINE_STORE", store_url)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    forget_modules()  # another test may have a module of this name
    yield lambda name: importlib.import_module(f"shop.{name}")
    forget_modules()


def forget_modules() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.fixture
def client(modules: Callable[[str], Any]) -> Iterator[Any]:
    import warnings

    warnings.filterwarnings("ignore", "Using `httpx`")
    from fastapi.testclient import TestClient

    with TestClient(modules("api").api) as client:
        yield client


@pytest.fixture
def worker(client: Any) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "ackline", "worker", "shop.tasks:app"]
    process = subprocess.Popen(command, cwd=EXAMPLES, env=dict(os.environ))
    yield process
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.parametrize("store_name", ["sqlite", "redis", "postgres"])
def test_an_order_is_charged_by_a_worker(
    client: Any, worker: subprocess.Popen[bytes], modules: Callable[[str], Any]
) -> None:
    id = client.post("/orders", json={"email": "ann@example.com", "items": 2}).json()["id"]

    receipt = client.get(f"/orders/{id}/receipt", params={"wait": 60})
    sent = modules("tasks").send_receipt

    assert receipt.json() == {"order": id, "total": 14}
    until(lambda: sent.queue.status(f"receipt-{id}") is not None)
    assert sent.result(f"receipt-{id}", 30) == f"ann@example.com: order {id} is paid, 14 EUR"
    assert client.get("/orders/unknown/receipt").status_code == 404


@pytest.mark.parametrize("store_name", ["sqlite"])
def test_an_order_is_charged_in_a_test(modules: Callable[[str], Any], database_url: str) -> None:
    tasks, database = modules("tasks"), modules("database")
    engine = database.connect()
    from sqlalchemy.orm import Session

    with tasks.app.testing(resources={"engine": engine}) as jobs:
        with Session(engine) as session:
            session.add(database.Order(id="o-1", email="ann@example.com", items=3))
            session.commit()
        tasks.charge.enqueue("o-1")
        jobs.drain(raise_errors=True)

        jobs.assert_enqueued(tasks.send_receipt, to="ann@example.com")
        assert tasks.count_unpaid(engine=engine) == 0
    engine.dispose()
