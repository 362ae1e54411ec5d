import uuid

from ackline.core.ids import UuidGenerator


def test_ids_are_unique_and_of_version_7():
    maker = UuidGenerator()

    ids = [maker.new() for _ in range(1000)]

    assert len(set(ids)) == 1000
    assert {uuid.UUID(id).version for id in ids} == {7}
    assert {uuid.UUID(id).variant for id in ids} == {uuid.RFC_4122}


def test_ids_sort_in_the_order_they_were_made(monkeypatch):
    moments = iter([1, 1, 1, 2, 2, 1_000_000])
    monkeypatch.setattr("ackline.core.ids.time.time_ns", lambda: next(moments) * 1_000_000)
    maker = UuidGenerator()

    ids = [maker.new() for _ in range(6)]

    assert ids == sorted(ids)


def test_a_forked_process_makes_other_ids():
    maker = UuidGenerator()
    maker.new()
    before = maker.new()

    maker.reseed()

    assert maker.new()[:23] != before[:23]
