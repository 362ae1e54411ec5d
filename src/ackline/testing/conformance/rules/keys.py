"""The small key-value store of a tenant."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ackline.stores.contract import KeyValue, KeyWrite
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver


class KeyRules(StoreCase):
    """Versions make writes safe; all writes of a call are applied, or none."""

    def _version(self, driver: QueueDriver, *key: str) -> int:
        [entry] = driver.store.read_keys(driver.queue.tenant, key, 1)
        return entry.version

    def test_a_key_is_written_and_read(self, driver: QueueDriver) -> None:
        assert driver.write("a", "b", value=bytes(range(256)))

        [entry] = driver.store.read_keys("default", ("a", "b"), 10)

        assert entry == KeyValue(key=("a", "b"), value=bytes(range(256)), version=entry.version)
        assert entry.version > 0

    def test_an_empty_value_is_a_value(self, driver: QueueDriver) -> None:
        driver.write("a", value=b"")

        assert driver.keys() == {("a",): b""}

    def test_keys_are_read_on_behind_one(self, driver: QueueDriver) -> None:
        """Also after a key that does not exist, or that is the prefix of others."""
        keys = [("k",), ("k", ""), ("k", "\x00"), ("k", "a"), ("k", "a", "b"), ("k", "b"), ("kk",)]
        for key in (("b",), *keys):
            driver.write(*key, value=b"1")

        def behind(*after: str) -> list[tuple[str, ...]]:
            found = driver.store.read_keys("default", ("k",), 9, after)
            return [entry.key for entry in found]

        assert [behind(*key) for key in keys] == [keys[n + 1 : -1] for n in range(len(keys))]
        assert behind("k", "aa") == [("k", "b")]
        assert behind("a") == keys[:-1]

    def test_version_zero_means_only_if_absent(self, driver: QueueDriver) -> None:
        assert driver.write("a", value=b"1", version=0)
        assert not driver.write("a", value=b"2", version=0)
        assert driver.keys() == {("a",): b"1"}

    def test_a_version_guards_a_write(self, driver: QueueDriver) -> None:
        driver.write("a", value=b"1")
        version = self._version(driver, "a")

        assert driver.write("a", value=b"2", version=version)
        assert not driver.write("a", value=b"3", version=version)
        assert driver.keys() == {("a",): b"2"}

    def test_a_version_is_never_used_again(self, driver: QueueDriver) -> None:
        """Else a writer could mistake a new key for the key it has read."""
        driver.write("a", value=b"1")
        version = self._version(driver, "a")
        driver.write("a", value=None)
        driver.write("a", value=b"1")

        assert self._version(driver, "a") != version
        assert not driver.write("a", value=b"2", version=version)

    def test_a_key_is_deleted_only_under_its_version(self, driver: QueueDriver) -> None:
        driver.write("a", value=b"1")
        version = self._version(driver, "a")

        assert not driver.write("a", value=None, version=version + 1)
        assert driver.write("a", value=None, version=version)
        assert driver.keys() == {}

    def test_all_writes_or_none(self, driver: QueueDriver) -> None:
        driver.write("there", value=b"1")

        applied = driver.store.write_keys(
            "default",
            [
                KeyWrite(key=("new",), value=b"1"),
                KeyWrite(key=("there",), value=b"2", version=0),
                KeyWrite(key=("newer",), value=b"1"),
            ],
        )

        assert not applied
        assert driver.keys() == {("there",): b"1"}

    def test_a_prefix_is_of_whole_parts(self, driver: QueueDriver) -> None:
        for key in (("a",), ("a", "1"), ("a", "2", "x"), ("ab", "1"), ("b",)):
            driver.write(*key, value=b"1")

        assert list(driver.keys("a")) == [("a",), ("a", "1"), ("a", "2", "x")]
        assert list(driver.keys("a", "2")) == [("a", "2", "x")]
        assert list(driver.keys()) == [("a",), ("a", "1"), ("a", "2", "x"), ("ab", "1"), ("b",)]

    def test_keys_come_in_order_and_bounded(self, driver: QueueDriver) -> None:
        for part in ("c", "a", "d", "b"):
            driver.write("k", part, value=b"1")

        found = driver.store.read_keys("default", ("k",), 3)

        assert [entry.key for entry in found] == [("k", "a"), ("k", "b"), ("k", "c")]

    def test_of_many_writers_one_wins_each_version(self, driver: QueueDriver) -> None:
        with ThreadPoolExecutor(8) as threads:
            won = list(
                threads.map(lambda n: driver.write("a", value=b"%d" % n, version=0), range(32))
            )

        assert sum(won) == 1
