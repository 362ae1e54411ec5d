"""Not many more batches are read than a reader of the journal needs."""

from __future__ import annotations

import pytest

from ackline.stores.shared.journal_batches import MAX_READ_SIZE, next_read_size


@pytest.mark.parametrize(
    ("wanted", "sizes", "chunk"),
    [
        (6000, [1000] * 4, 6),
        (6001, [1000] * 4, 7),
        (10, [1, 3], 5),
        (1, [1000] * 4, 1),
        (0, [1000] * 4, 1),
        (10**6, [1] * 4, MAX_READ_SIZE),
    ],
)
def test_as_many_batches_as_have_the_wanted_events(wanted, sizes, chunk):
    assert next_read_size(wanted, sizes) == chunk
