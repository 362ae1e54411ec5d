"""On which stores a test runs."""

from __future__ import annotations

import pytest

STORES = ("memory", "sqlite", "redis", "postgres")


def choose_stores(metafunc: pytest.Metafunc, *names: str) -> None:
    """Run a test that uses `store_name` on the first of these stores.

    The conformance suite proves that all stores do the same, so one of them is enough for most of
    what is built on them. What is marked `every_store` or `slow` runs on each, and all of it does
    with `--every-store`. A test for certain stores parametrizes `store_name` itself.
    """
    test, asked = metafunc.definition, metafunc.config.getoption("every_store")
    own = any("store_name" in mark.args[0] for mark in test.iter_markers("parametrize"))
    if "store_name" in metafunc.fixturenames and not own:
        every = asked or any(map(test.get_closest_marker, ("every_store", "slow")))
        metafunc.parametrize("store_name", names if every else names[:1])
