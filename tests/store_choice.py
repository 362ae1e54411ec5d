"""On which stores a test runs."""

from __future__ import annotations

import pytest

STORES = ("memory", "sqlite", "redis", "postgres")


def choose_stores(metafunc: pytest.Metafunc, *names: str) -> None:
    """Run tests that use `store_name` on the first of these stores, `every_store` ones on each.

    The conformance suite proves that all stores do the same, so one of them is enough for most of
    what is built on them. A test for certain stores parametrizes `store_name` itself.
    """
    marks = metafunc.definition.iter_markers("parametrize")
    if "store_name" not in metafunc.fixturenames or any("store_name" in m.args[0] for m in marks):
        return
    every = metafunc.definition.get_closest_marker("every_store")
    metafunc.parametrize(
        "store_name", names if every or metafunc.config.getoption("every_store") else names[:1]
    )
