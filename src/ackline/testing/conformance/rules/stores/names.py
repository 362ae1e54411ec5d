"""Names and bytes: stored unchanged, and never confused with each other."""

from __future__ import annotations

import pytest

from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Verdict, redrive
from ackline.core.limits import MAX_NAME_BYTES
from ackline.stores.contract import Filter
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, draft

NAMES = [
    "a:b",
    "a/b",
    "a\x00b",
    "{a}",
    " a ",
    "A",
    "a",
    "á",
    "a\u0301",
    "🙂",
    "\n",
    "'; DROP TABLE job; --",
    '"',
    "%s",
    "*",
    "x" * MAX_NAME_BYTES,
    "🙂" * (MAX_NAME_BYTES // 4),
]


class NameRules(StoreCase):
    """Rule 11: keys and names are encoded injectively."""

    def test_ids_that_look_alike_are_different_jobs(self, driver: QueueDriver) -> None:
        receipts = [driver.enqueue(name, payload=name.encode()) for name in NAMES]

        assert all(receipt.accepted for receipt in receipts)
        assert [driver.get(name).payload for name in NAMES] == [name.encode() for name in NAMES]
        assert driver.claim_ids() == NAMES
        assert [event.id for event in driver.journal()[: len(NAMES)]] == NAMES

    def test_kinds_that_look_alike_are_different_kinds(self, driver: QueueDriver) -> None:
        for name in NAMES:
            driver.enqueue(f"job of {NAMES.index(name)}", kind=name)

        assert [driver.claim_one(kinds={name}).kind for name in NAMES] == NAMES

    def test_groups_that_look_alike_are_different_groups(self, driver: QueueDriver) -> None:
        for index, name in enumerate(NAMES):
            driver.enqueue_all([f"{index}", f"{index} again"], group=name)

        assert driver.claim_ids() == [str(index) for index in range(len(NAMES))]

    def test_queues_and_tenants_that_look_alike_are_different_ones(
        self, driver: QueueDriver
    ) -> None:
        """`a:b` + `c` never meets `a` + `b:c`."""
        pairs = [("a:b", "c"), ("a", "b:c"), ("a/b", "c"), ("a", "b/c"), ("a\x00b", "c")]
        pairs += [("a", "b\x00c"), ("a", "c"), ("A", "c"), ("a", "C"), ("default", "a/c")]
        pairs += [(name, name) for name in NAMES]
        queues = [driver.other_queue(name, tenant=tenant) for tenant, name in pairs]
        for index, queue in enumerate(queues):
            assert queue.enqueue("id", payload=b"%d" % index).accepted

        assert [queue.get("id").payload for queue in queues] == [
            b"%d" % index for index in range(len(pairs))
        ]
        assert {info.key for info in driver.store.describe(None)} == {
            QueueKey(tenant, name) for tenant, name in pairs
        }

    def test_worker_names_come_back(self, driver: QueueDriver) -> None:
        driver.enqueue_all(map(str, range(len(NAMES))))

        assert [driver.claim_one(worker=name).worker for name in NAMES] == NAMES
        for name in NAMES:
            assert len(driver.store.leases(driver.queue, worker=name)) == 1

    def test_key_parts_that_look_alike_are_different_keys(self, driver: QueueDriver) -> None:
        keys = [("a:b", "c"), ("a", "b:c"), ("a\x00b",), ("a", "b"), ("a", "", "b"), ("ab",)]
        keys += [(name, "part") for name in NAMES]
        for key in keys:
            driver.write(*key, value=repr(key).encode())

        assert driver.keys() == {key: repr(key).encode() for key in keys}


class PayloadRules(StoreCase):
    """Rule 11: a payload is stored and returned byte for byte."""

    @pytest.mark.parametrize(
        "payload",
        [b"", bytes(range(256)), b"\x00", b"\xff\xfe\xfd", b"null", b"\xed\xa0\x80", b"x" * 2**20],
        ids=["empty", "every byte", "NUL", "not UTF-8", "null", "a lone surrogate", "1 MiB"],
    )
    def test_payloads_come_back_byte_for_byte(self, driver: QueueDriver, payload: bytes) -> None:
        driver.enqueue("a", payload=payload)

        assert driver.get("a").payload == payload
        assert driver.claim_one().payload == payload
        assert driver.listed()[0].payload == payload

    def test_results_come_back_byte_for_byte(self, driver: QueueDriver) -> None:
        result = bytes(range(256)) * 4096

        driver.complete(driver.enqueue_and_claim("a"), result)

        assert driver.get("a").result == result

    def test_a_text_is_found_in_a_binary_payload(self, driver: QueueDriver) -> None:
        driver.enqueue("a", payload=b"\xff\x00needle\x00\xff")

        assert [job.id for job in driver.listed(Filter(text="needle"))] == ["a"]

    def test_headers_of_any_text_come_back(self, driver: QueueDriver) -> None:
        headers = {"": "", "a\x00b": "🙂", "ключ": "значение"}
        driver.enqueue("a", headers=headers)

        assert driver.claim_one().options.headers == headers


class TenantRules(StoreCase):
    """Tenants see nothing of each other."""

    def test_ids_are_per_tenant(self, driver: QueueDriver) -> None:
        """Rule 6: ids that were shared by tenants would leak results."""
        foreign = driver.other_queue("work", tenant="acme")
        foreign.complete(foreign.enqueue_and_claim("a"), b"secret")

        assert driver.find("a") is None
        assert driver.enqueue("a").accepted

    def test_no_verb_reaches_a_foreign_job(self, driver: QueueDriver) -> None:
        """A foreign job gets the same answer as an absent one."""
        foreign = driver.other_queue("work", tenant="acme")
        foreign.dead_letter("dead")
        job = foreign.enqueue_and_claim("a")
        before = foreign.listed(), foreign.journal()

        assert driver.complete(job) == Verdict(False, None)
        assert driver.apply_one(redrive("dead")) == Verdict(False, None)
        assert driver.heartbeat(job).lost == [0]
        assert driver.store.leases(driver.queue, worker="w1") == []
        assert driver.store.purge(driver.queue, Filter(), 100) == 0
        assert driver.listed() == []
        assert (foreign.listed(), foreign.journal()) == before

    def test_keys_are_per_tenant(self, driver: QueueDriver) -> None:
        foreign = driver.other_queue("work", tenant="acme")
        foreign.write("k", value=b"secret")

        assert driver.keys() == {}
        assert driver.write("k", value=b"mine", version=0)
        assert foreign.keys() == {("k",): b"secret"}

    def test_a_pause_is_per_tenant(self, driver: QueueDriver) -> None:
        driver.other_queue("work", tenant="acme").configure(paused=True)
        driver.store.enqueue(driver.queue, [draft("a")])

        assert driver.claim_one().state is State.PROCESSING
