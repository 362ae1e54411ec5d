"""Shared helpers of pruning and purging that no conformance rule covers."""

from __future__ import annotations

from ackline.stores.shared.retention import find_and_purge


def test_a_purge_searches_again_when_all_that_was_found_has_changed():
    found = [["a"], ["b"], ["c"]]

    assert find_and_purge(lambda: found.pop(0), lambda ids: int(ids == ["b"])) == 1
    assert found == [["c"]]


def test_a_purge_ends_when_nothing_is_found():
    assert find_and_purge(list, len) == 0
