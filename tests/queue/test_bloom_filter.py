from __future__ import annotations

import gc
import weakref

from ackline.queue.drafts.bloom_filter import RotatingBloomFilter, filter_for_store
from ackline.testing import ManualClock


def test_a_key_is_new_once() -> None:
    bloom = RotatingBloomFilter()
    assert [bloom.add(("q", "a")), bloom.add(("q", "a")), bloom.add(("r", "a"))] == [
        True,
        False,
        True,
    ]


def test_keys_are_told_apart_however_they_are_cut() -> None:
    bloom = RotatingBloomFilter()
    assert all(bloom.add(key) for key in [("a:b", "c"), ("a", "b:c"), ("a:b:c", "")])


def test_keys_are_forgotten_after_two_rotations() -> None:
    clock = ManualClock()
    bloom = RotatingBloomFilter(rotate_after=10.0, now=clock.now)
    bloom.add("a")
    clock.advance(10)
    assert not bloom.add("a")
    for _ in range(2):
        clock.advance(10)
        bloom.add("b")
    assert bloom.add("a")


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
