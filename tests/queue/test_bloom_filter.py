from __future__ import annotations

import gc
import weakref

from ackline.queue.drafts.bloom_filter import RotatingBloomFilter, filter_for_store
from ackline.testing import ManualClock


def test_a_key_is_new_once() -> None:
    seen = RotatingBloomFilter()
    assert [seen.add(("q", "a")), seen.add(("q", "a")), seen.add(("r", "a"))] == [True, False, True]


def test_keys_are_told_apart_however_they_are_cut() -> None:
    seen = RotatingBloomFilter()
    assert all(seen.add(key) for key in [("a:b", "c"), ("a", "b:c"), ("a:b:c", "")])


def test_keys_are_forgotten_after_two_rotations() -> None:
    clock = ManualClock()
    seen = RotatingBloomFilter(rotate_after=10.0, now=clock.now)
    seen.add("a")
    clock.advance(10)
    assert not seen.add("a")
    for _ in range(2):
        clock.advance(10)
        seen.add("b")
    assert seen.add("a")


def test_a_store_has_one_filter_that_goes_with_it() -> None:
    class Store:
        pass

    one, other = Store(), Store()
    assert filter_for_store(one) is filter_for_store(one)
    assert filter_for_store(one) is not filter_for_store(other)
    kept = weakref.ref(filter_for_store(one))
    del one
    gc.collect()
    assert kept() is None
