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

    def test_ids_that_look_alike_are_different_jobs(self, bench: QueueDriver) -> None:
        receipts = [bench.put(name, payload=name.encode()) for name in NAMES]

        assert all(receipt.accepted for receipt in receipts)
        assert [bench.get(name).payload for name in NAMES] == [name.encode() for name in NAMES]
        assert bench.take_ids() == NAMES
        assert [event.id for event in bench.journal()[: len(NAMES)]] == NAMES

    def test_kinds_that_look_alike_are_different_kinds(self, bench: QueueDriver) -> None:
        for name in NAMES:
            bench.put(f"job of {NAMES.index(name)}", kind=name)

        assert [bench.take_one(kinds={name}).kind for name in NAMES] == NAMES

    def test_groups_that_look_alike_are_different_groups(self, bench: QueueDriver) -> None:
        for index, name in enumerate(NAMES):
            bench.put_all([f"{index}", f"{index} again"], group=name)

        assert bench.take_ids() == [str(index) for index in range(len(NAMES))]

    def test_queues_and_tenants_that_look_alike_are_different_ones(
        self, bench: QueueDriver
    ) -> None:
        """`a:b` + `c` never meets `a` + `b:c`."""
        pairs = [("a:b", "c"), ("a", "b:c"), ("a/b", "c"), ("a", "b/c"), ("a\x00b", "c")]
        pairs += [("a", "b\x00c"), ("a", "c"), ("A", "c"), ("a", "C"), ("default", "a/c")]
        pairs += [(name, name) for name in NAMES]
        queues = [bench.other_queue(name, tenant=tenant) for tenant, name in pairs]
        for index, queue in enumerate(queues):
            assert queue.put("id", payload=b"%d" % index).accepted

        assert [queue.get("id").payload for queue in queues] == [
            b"%d" % index for index in range(len(pairs))
        ]
        assert {info.key for info in bench.store.describe(None)} == {
            QueueKey(tenant, name) for tenant, name in pairs
        }

    def test_worker_names_come_back(self, bench: QueueDriver) -> None:
        bench.put_all(map(str, range(len(NAMES))))

        assert [bench.take_one(worker=name).worker for name in NAMES] == NAMES
        for name in NAMES:
            assert len(bench.store.leases(bench.queue, worker=name)) == 1

    def test_key_parts_that_look_alike_are_different_keys(self, bench: QueueDriver) -> None:
        keys = [("a:b", "c"), ("a", "b:c"), ("a\x00b",), ("a", "b"), ("a", "", "b"), ("ab",)]
        keys += [(name, "part") for name in NAMES]
        for key in keys:
            bench.write(*key, value=repr(key).encode())

        assert bench.keys() == {key: repr(key).encode() for key in keys}


class PayloadRules(StoreCase):
    """Rule 11: a payload is stored and returned byte for byte."""

    @pytest.mark.parametrize(
        "payload",
        [b"", bytes(range(256)), b"\x00", b"\xff\xfe\xfd", b"null", b"\xed\xa0\x80", b"x" * 2**20],
        ids=["empty", "every byte", "NUL", "not UTF-8", "null", "a lone surrogate", "1 MiB"],
    )
    def test_payloads_come_back_byte_for_byte(self, bench: QueueDriver, payload: bytes) -> None:
        bench.put("a", payload=payload)

        assert bench.get("a").payload == payload
        assert bench.take_one().payload == payload
        assert bench.listed()[0].payload == payload

    def test_results_come_back_byte_for_byte(self, bench: QueueDriver) -> None:
        result = bytes(range(256)) * 4096

        bench.complete(bench.taken("a"), result)

        assert bench.get("a").result == result

    def test_a_text_is_found_in_a_payload_that_is_no_text(self, bench: QueueDriver) -> None:
        bench.put("a", payload=b"\xff\x00needle\x00\xff")

        assert [job.id for job in bench.listed(Filter(text="needle"))] == ["a"]

    def test_headers_of_any_text_come_back(self, bench: QueueDriver) -> None:
        headers = {"": "", "a\x00b": "🙂", "ключ": "значение"}
        bench.put("a", headers=headers)

        assert bench.take_one().options.headers == headers


class TenantRules(StoreCase):
    """Tenants see nothing of each other."""

    def test_ids_are_per_tenant(self, bench: QueueDriver) -> None:
        """Rule 6: ids that are global across tenants leak results (codeQ)."""
        foreign = bench.other_queue("work", tenant="acme")
        foreign.complete(foreign.taken("a"), b"secret")

        assert bench.find("a") is None
        assert bench.put("a").accepted

    def test_no_verb_reaches_a_foreign_job(self, bench: QueueDriver) -> None:
        """A foreign job gets the same answer as an absent one."""
        foreign = bench.other_queue("work", tenant="acme")
        foreign.dead_letter("dead")
        job = foreign.taken("a")
        before = foreign.listed(), foreign.journal()

        assert bench.complete(job) == Verdict(False, None)
        assert bench.apply_one(redrive("dead")) == Verdict(False, None)
        assert bench.heartbeat(job).lost == [0]
        assert bench.store.leases(bench.queue, worker="w1") == []
        assert bench.store.purge(bench.queue, Filter(), 100) == 0
        assert bench.listed() == []
        assert (foreign.listed(), foreign.journal()) == before

    def test_keys_are_per_tenant(self, bench: QueueDriver) -> None:
        foreign = bench.other_queue("work", tenant="acme")
        foreign.write("k", value=b"secret")

        assert bench.keys() == {}
        assert bench.write("k", value=b"mine", version=0)
        assert foreign.keys() == {("k",): b"secret"}

    def test_a_pause_is_per_tenant(self, bench: QueueDriver) -> None:
        bench.other_queue("work", tenant="acme").configure(paused=True)
        bench.store.enqueue(bench.queue, [draft("a")])

        assert bench.take_one().state is State.PROCESSING
