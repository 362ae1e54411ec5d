from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.store_choice import STORES, choose_stores


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, *STORES)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 60))
    return True


@pytest.fixture
def url(store_url: str) -> str:
    return store_url
