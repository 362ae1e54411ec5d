"""Keys and values of a tenant, alone and written together with an enqueue."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ackline.core.errors import KeysChanged, StoreFull
from ackline.core.job import Draft, State
from ackline.stores.contract import KeyValue, KeyWrite, Receipt, queue_key
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, draft


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

    def test_reading_keys_continues_after_a_key(self, driver: QueueDriver) -> None:
        """Even if that key does not exist, or is the prefix of others."""
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
        """Otherwise a writer could mistake a new key for the one it has read."""
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

    def test_a_prefix_matches_whole_parts(self, driver: QueueDriver) -> None:
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


class EnqueueWithKeysRules(StoreCase):
    """An enqueue with a key's version is refused if the key has changed since."""

    def _enqueue(
        self, driver: QueueDriver, value: bytes, version: int | None, *drafts: Draft
    ) -> list[Receipt]:
        write = KeyWrite(key=queue_key(driver.queue, "ledger"), value=value, version=version)
        return driver.store.enqueue(driver.queue, drafts, [write])

    def _ledger(self, driver: QueueDriver) -> tuple[bytes, int]:
        key = queue_key(driver.queue, "ledger")
        found = driver.store.read_keys(driver.queue.tenant, key, 1)
        return (found[0].value, found[0].version) if found else (b"", 0)

    def test_jobs_and_key_are_stored_together(self, driver: QueueDriver) -> None:
        receipts = self._enqueue(driver, b"a b", 0, draft("a"), draft("b", delay=60))

        assert [receipt.accepted for receipt in receipts] == [True, True]
        assert (driver.state("a"), driver.state("b")) == (State.QUEUED, State.SCHEDULED)
        assert self._ledger(driver)[0] == b"a b"

    def test_an_outdated_version_stores_nothing(self, driver: QueueDriver) -> None:
        self._enqueue(driver, b"1", 0, draft("a"))
        version = self._ledger(driver)[1]
        self._enqueue(driver, b"2", version, draft("b"))
        journal = driver.journal()

        with pytest.raises(KeysChanged):
            self._enqueue(driver, b"3", version, draft("c"))

        assert driver.find("c") is None
        assert self._ledger(driver)[0] == b"2"
        assert driver.journal() == journal
        assert driver.counts() == {State.QUEUED: 2}

    def test_a_missing_key_matches_version_zero_only(self, driver: QueueDriver) -> None:
        with pytest.raises(KeysChanged):
            self._enqueue(driver, b"1", 7, draft("a"))

        assert driver.find("a") is None
        assert self._ledger(driver) == (b"", 0)

    def test_the_key_is_written_even_if_every_job_is_a_duplicate(self, driver: QueueDriver) -> None:
        driver.enqueue("a")

        [receipt] = self._enqueue(driver, b"1", 0, draft("a", payload=b"[]"))

        assert (receipt.accepted, receipt.state) == (False, State.QUEUED)
        assert self._ledger(driver)[0] == b"1"

    def test_the_key_is_written_even_without_jobs(self, driver: QueueDriver) -> None:
        assert self._enqueue(driver, b"1", 0) == []
        assert self._ledger(driver)[0] == b"1"
        with pytest.raises(KeysChanged):
            self._enqueue(driver, b"2", 0)

    def test_a_full_queue_leaves_the_key_alone(self, driver: QueueDriver) -> None:
        driver.configure(max_jobs=1)

        with pytest.raises(StoreFull):
            self._enqueue(driver, b"1", 0, draft("a"), draft("b"))

        assert self._ledger(driver) == (b"", 0)

    def test_unless_all_keys_are_as_expected_nothing_is_stored(self, driver: QueueDriver) -> None:
        missing, existing = queue_key(driver.queue, "missing"), queue_key(driver.queue, "existing")
        driver.write(*existing, value=b"there")

        with pytest.raises(KeysChanged):
            driver.store.enqueue(
                driver.queue,
                [draft("a")],
                [
                    KeyWrite(key=missing, value=b"1", version=0),
                    KeyWrite(key=existing, value=b"2", version=0),
                ],
            )

        assert driver.find("a") is None
        assert driver.keys(*missing) == {}
        assert driver.keys(*existing) == {existing: b"there"}

    def test_a_key_is_dropped_in_the_same_step(self, driver: QueueDriver) -> None:
        self._enqueue(driver, b"1", 0)
        write = KeyWrite(
            key=queue_key(driver.queue, "ledger"), value=None, version=self._ledger(driver)[1]
        )

        driver.store.enqueue(driver.queue, [draft("a")], [write])

        assert driver.state("a") is State.QUEUED
        assert self._ledger(driver) == (b"", 0)

    def test_of_many_at_once_one_is_stored(self, driver: QueueDriver) -> None:
        self._enqueue(driver, b"first", 0)
        version = self._ledger(driver)[1]

        def enqueue(number: int) -> bool:
            try:
                self._enqueue(driver, b"%d" % number, version, draft(f"job-{number}"))
            except KeysChanged:
                return False
            return True

        with ThreadPoolExecutor(8) as threads:
            won = list(threads.map(enqueue, range(24)))

        assert sum(won) == 1
        assert driver.counts() == {State.QUEUED: 1}
        assert driver.state(f"job-{won.index(True)}") is State.QUEUED
