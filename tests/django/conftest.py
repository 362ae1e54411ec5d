from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackline import Worker
from tests.aio.conftest import pytest_pyfunc_call
from tests.store_choice import STORES, choose_stores

__all__ = ["pytest_pyfunc_call"]

collect_ignore = ["shop_tasks.py"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, *STORES)


@pytest.fixture
def configure() -> Iterator[Callable[..., None]]:
    """Gives the project this OPTIONS for its tasks, until the end of the test."""
    pytest.importorskip("django.tasks", reason="Django has tasks from version 6 on")
    from django.conf import settings
    from django.test import override_settings

    if not settings.configured:
        import django

        settings.configure(USE_TZ=True)
        django.setup()
    overrides = []

    def configure(url: str, queues: tuple[str, ...] = ("default", "slow"), **options: Any) -> None:
        backend = {
            "BACKEND": "ackline.django.backend.AcklineBackend",
            "QUEUES": list(queues),
            "OPTIONS": {"url": url, **options},
        }
        override = override_settings(TASKS={"default": backend}, USE_TZ=True)
        override.enable()
        overrides.append(override)

    yield configure
    from ackline.django.backend import app_at

    for override in reversed(overrides):
        options = settings.TASKS["default"]["OPTIONS"]
        app_at(options["url"], options.get("tenant")).close()
        override.disable()
    app_at.cache_clear()


@pytest.fixture
def shop(store_url: str, configure: Callable[..., None]) -> Any:
    """The tasks of a project whose jobs are in the store of the test."""
    configure(store_url)
    from tests.django import shop_tasks

    shop_tasks.ran.clear()
    return shop_tasks


class RunningWorker:
    """The worker of `manage.py ackline_worker`, within a `with` block."""

    def __init__(self, *names: str) -> None:
        from ackline.django.worker import app

        self._worker = Worker(*app().open_queues(names or None), concurrency=2)

    def __enter__(self) -> None:
        self._worker.start()

    def __exit__(self, *_error: object) -> None:
        self._worker.stop()
