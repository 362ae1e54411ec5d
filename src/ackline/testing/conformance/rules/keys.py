"""The small key-value store of a tenant."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ackline.stores.contract import KeyValue, KeyWrite
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver


class KeyRules(StoreCase):
    """Versions make writes safe; all writes of a call are applied, or none."""

    def _version(self, bench: QueueDriver, *key: str) -> int:
        [entry] = bench.store.read_keys(bench.queue.tenant, key, 1)
        return entry.version

    def test_a_key_is_written_and_read(self, bench: QueueDriver) -> None:
        assert bench.write("a", "b", value=bytes(range(256)))

        [entry] = bench.store.read_keys("default", ("a", "b"), 10)

        assert entry == KeyValue(key=("a", "b"), value=bytes(range(256)), version=entry.version)
        assert entry.version > 0

    def test_an_empty_value_is_a_value(self, bench: QueueDriver) -> None:
        bench.write("a", value=b"")

        assert bench.keys() == {("a",): b""}

    def test_keys_are_read_on_behind_one(self, bench: QueueDriver) -> None:
        """Also after a key that does not exist, or that is the prefix of others."""
        keys = [("k",), ("k", ""), ("k", "\x00"), ("k", "a"), ("k", "a", "b"), ("k", "b"), ("kk",)]
        for key in (("b",), *keys):
            bench.write(*key, value=b"1")

        def behind(*after: str) -> list[tuple[str, ...]]:
            found = bench.store.read_keys("default", ("k",), 9, after)
            return [entry.key for entry in found]

        assert [behind(*key) for key in keys] == [keys[n + 1 : -1] for n in range(len(keys))]
        assert behind("k", "aa") == [("k", "b")]
        assert behind("a") == keys[:-1]

    def test_version_zero_means_only_if_absent(self, bench: QueueDriver) -> None:
        assert bench.write("a", value=b"1", version=0)
        assert not bench.write("a", value=b"2", version=0)
        assert bench.keys() == {("a",): b"1"}

    def test_a_version_guards_a_write(self, bench: QueueDriver) -> None:
        bench.write("a", value=b"1")
        version = self._version(bench, "a")

        assert bench.write("a", value=b"2", version=version)
        assert not bench.write("a", value=b"3", version=version)
        assert bench.keys() == {("a",): b"2"}

    def test_a_version_is_never_used_again(self, bench: QueueDriver) -> None:
        """Else a writer could mistake a new key for the key it has read."""
        bench.write("a", value=b"1")
        version = self._version(bench, "a")
        bench.write("a", value=None)
        bench.write("a", value=b"1")

        assert self._version(bench, "a") != version
        assert not bench.write("a", value=b"2", version=version)

    def test_a_key_is_deleted_only_under_its_version(self, bench: QueueDriver) -> None:
        bench.write("a", value=b"1")
        version = self._version(bench, "a")

        assert not bench.write("a", value=None, version=version + 1)
        assert bench.write("a", value=None, version=version)
        assert bench.keys() == {}

    def test_all_writes_or_none(self, bench: QueueDriver) -> None:
        bench.write("there", value=b"1")

        applied = bench.store.write_keys(
            "default",
            [
                KeyWrite(key=("new",), value=b"1"),
                KeyWrite(key=("there",), value=b"2", version=0),
                KeyWrite(key=("newer",), value=b"1"),
            ],
        )

        assert not applied
        assert bench.keys() == {("there",): b"1"}

    def test_a_prefix_is_of_whole_parts(self, bench: QueueDriver) -> None:
        for key in (("a",), ("a", "1"), ("a", "2", "x"), ("ab", "1"), ("b",)):
            bench.write(*key, value=b"1")

        assert list(bench.keys("a")) == [("a",), ("a", "1"), ("a", "2", "x")]
        assert list(bench.keys("a", "2")) == [("a", "2", "x")]
        assert list(bench.keys()) == [("a",), ("a", "1"), ("a", "2", "x"), ("ab", "1"), ("b",)]

    def test_keys_come_in_order_and_bounded(self, bench: QueueDriver) -> None:
        for part in ("c", "a", "d", "b"):
            bench.write("k", part, value=b"1")

        found = bench.store.read_keys("default", ("k",), 3)

        assert [entry.key for entry in found] == [("k", "a"), ("k", "b"), ("k", "c")]

    def test_of_many_writers_one_wins_each_version(self, bench: QueueDriver) -> None:
        with ThreadPoolExecutor(8) as threads:
            won = list(
                threads.map(lambda n: bench.write("a", value=b"%d" % n, version=0), range(32))
            )

        assert sum(won) == 1
