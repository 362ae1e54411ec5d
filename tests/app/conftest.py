from __future__ import annotations

from collections.abc import Iterator

import pytest

from ackline import App, Worker
from tests.aio.conftest import pytest_pyfunc_call
from tests.store_choice import STORES, choose_stores

__all__ = ["pytest_pyfunc_call"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, *STORES)


@pytest.fixture
def app(store_url: str) -> Iterator[App]:
    """An app that is closed whatever happens."""
    made = App(store_url)
    yield made
    made.close()


class RunningWorker:
    """A worker of an app, within a `with` block."""

    def __init__(self, app: App) -> None:
        self._worker = Worker(app)

    def __enter__(self) -> None:
        self._worker.start()

    def __exit__(self, *_error: object) -> None:
        self._worker.stop()
