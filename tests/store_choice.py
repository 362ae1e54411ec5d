"""Chooses the stores on which a test runs."""

from __future__ import annotations

import pytest

STORES = ("memory", "sqlite", "redis", "postgres")


def choose_stores(metafunc: pytest.Metafunc, *names: str) -> None:
    """Run a test that uses `store_name` on the first of these stores.

    The conformance suite proves that all stores do the same, so one is enough for most tests. Tests
    marked `every_store` or `slow` run on each store, and with `--every-store` all tests do. A test
    for certain stores parametrizes `store_name` itself.
    """
    test, requested = metafunc.definition, metafunc.config.getoption("every_store")
    own = any("store_name" in mark.args[0] for mark in test.iter_markers("parametrize"))
    if "store_name" in metafunc.fixturenames and not own:
        every = requested or any(map(test.get_closest_marker, ("every_store", "slow")))
        metafunc.parametrize("store_name", names if every else names[:1])
