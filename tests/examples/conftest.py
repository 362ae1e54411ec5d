from __future__ import annotations

import pytest

from tests.store_choice import STORES, choose_stores


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, *STORES)
