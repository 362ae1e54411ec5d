"""Keys in the file sort as tuples do."""

from __future__ import annotations

from ackline.stores.contract import KeyWrite
from ackline.stores.shared.key_encoding import decode_key, encode_key

NAMES = [
    "a:b",
    "a",
    "b:a",
    "nul\0",
    "\0",
    "nul\0more",
    "💌",
    "é",
    "x" * 512,
    "%",
    "'; --",
    "1",
    "01",
]


def test_keys_sort_as_tuples_do_and_come_back(store):
    keys = [(), ("",), *((name,) for name in NAMES), *((a, b) for a in NAMES for b in NAMES)]
    store.write_keys("t", [KeyWrite(key=key, value=b"v") for key in keys])

    assert sorted(keys) == sorted(keys, key=encode_key)
    assert [decode_key(encode_key(key)) for key in keys] == keys
    assert [entry.key for entry in store.read_keys("t", (), 1000)] == sorted(keys)
    under = [entry.key for entry in store.read_keys("t", ("a",), 1000)]
    assert under == sorted(key for key in keys if key[:1] == ("a",))
