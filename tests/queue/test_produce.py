from __future__ import annotations

import datetime as dt
import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

import ackline
from ackline import Completed, Duplicate, InvalidName, Job, NewJob, Queue, Queued, Queues, State
from ackline.core.job import Draft, Options, QueueKey
from ackline.queue import EnqueueOptions
from ackline.queue.produce import CompletedUndecodable
from ackline.stores.contract import Receipt
from ackline.testing import ManualClock, drain


class Mail(msgspec.Struct):
    to: str
    copies: int = 1


@pytest.fixture
def queue(queues: Queues) -> Queue[Any, Any]:
    return queues["email"]


def run(queue: Queue[Any, Any], result: Any = None) -> None:
    [job] = queue.claim()
    queue.complete(job, result)


def test_a_job_is_stored_and_handed_out(queue: Queue[Any, Any]) -> None:
    assert queue.enqueue({"to": "a"}, id="1") == Queued("1", State.QUEUED)
    [job] = queue.claim()
    assert (job.id, job.kind, job.payload, job.attempt) == ("1", "default", {"to": "a"}, 1)
    assert job.state is State.PROCESSING


def test_a_job_without_an_id_gets_a_unique_one(queue: Queue[Any, Any]) -> None:
    ids = {queue.enqueue(n).id for n in range(100)}
    assert len(ids) == 100


@pytest.mark.every_store
class TestSameId:
    def test_alive_it_is_a_duplicate_with_its_state(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        assert queue.enqueue(2, id="a") == Duplicate("a", State.QUEUED)
        [job] = queue.claim()
        assert queue.enqueue(2, id="a") == Duplicate("a", State.PROCESSING)
        queue.fail(job, "no", delay=60)
        assert queue.enqueue(2, id="a") == Duplicate("a", State.FAILING)
        assert job.payload == 1

    def test_delayed_it_is_a_duplicate_too(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a", delay=60)
        assert queue.enqueue(2, id="a") == Duplicate("a", State.SCHEDULED)

    @pytest.mark.parametrize("result", [{"sent": True}, None, 0, "", [], False])
    def test_completed_it_answers_the_result(self, queue: Queue[Any, Any], result: Any) -> None:
        queue.enqueue(1, id="a")
        run(queue, result)
        assert queue.enqueue(2, id="a") == Completed("a", result)
        assert queue.claim() == []

    def test_completed_long_ago_it_runs_again(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        queue.enqueue(1, id="a", result_ttl=60)
        run(queue)
        clock.advance(60)
        assert queue.enqueue(2, id="a") == Queued("a")
        assert queue.claim()[0].payload == 2

    def test_failed_or_cancelled_it_is_replaced(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        queue.bury(queue.claim()[0], "never")
        assert queue.enqueue(2, id="a") == Queued("a")
        queue.cancel("a")
        assert queue.enqueue(3, id="a") == Queued("a")
        [job] = queue.claim()
        assert (job.payload, job.attempt) == (3, 1)

    def test_it_is_another_job_in_another_queue_or_tenant(self, queues: Queues) -> None:
        others = Queues(queues.store, "acme")
        for queue in (queues["email"], queues["sms"], others["email"]):
            assert queue.enqueue(1, id="a") == Queued("a")

    def test_many_of_one_id_make_one_job(self, queue: Queue[Any, Any]) -> None:
        receipts = queue.enqueue_many([NewJob(n, id="a") for n in range(5)])
        assert receipts == [Queued("a"), *[Duplicate("a", State.QUEUED)] * 4]
        assert [job.payload for job in queue.claim(10)] == [0]


class TestTags:
    def test_a_job_has_its_tags_once_and_sorted(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, tags=["vip", "eu", "vip"])
        queue.enqueue(2, tags="vip")
        assert [job.tags for job in queue.claim(2)] == [("eu", "vip"), ("vip",)]

    @pytest.mark.parametrize("tags", [[1], [""], ["x" * 101], list(map(str, range(21))), 7])
    def test_tags_are_a_few_short_strings(self, queue: Queue[Any, Any], tags: Any) -> None:
        with pytest.raises(ackline.InvalidJob, match="tag"):
            queue.enqueue(1, tags=tags)


class TestMany:
    def test_options_hold_for_all_unless_a_job_has_its_own(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue_many([1, NewJob(2, priority=9), 3], kind="bulk", priority=0)
        assert [(job.payload, job.kind, job.priority) for job in queue.claim(3)] == [
            (2, "bulk", 9),
            (1, "bulk", 0),
            (3, "bulk", 0),
        ]

    def test_any_number_in_order(self, queue: Queue[Any, Any]) -> None:
        receipts = queue.enqueue_many(iter(range(2500)))
        assert len({answer.id for answer in receipts}) == 2500
        assert [job.payload for job in queue.claim(2500)] == list(range(2500))

    def test_no_options_are_the_same_as_the_usual_ones(self, queue: Queue[Any, Any]) -> None:
        plain = queue.draft_builder.draft({"n": 1}, {})
        arguments = queue.draft_builder.draft(
            {"n": 1}, {"kind": "default", "priority": 5, "delay": 0.0}
        )

        assert plain.id < arguments.id
        assert plain == msgspec.structs.replace(arguments, id=plain.id)

    def test_large_ones_go_in_steps_of_few(
        self, queue: Queue[Any, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[int] = []
        enqueue = queue.store.enqueue

        def noting(key: QueueKey, drafts: Sequence[Draft]) -> list[Receipt]:
            steps.append(len(drafts))
            return enqueue(key, drafts)

        monkeypatch.setattr(queue.store, "enqueue", noting)
        large = [NewJob("x" * 1_000_000, id=str(n)) for n in range(20)]
        assert queue.enqueue_many(large) == [Queued(job.options["id"]) for job in large]
        assert steps == [9, 9, 2]

        steps.clear()
        again = [queue.draft_builder.draft(job.payload, job.options) for job in large]
        assert [receipt.accepted for receipt in queue.store_drafts(again)] == [False] * 20
        assert steps == [9, 9, 2]

    def test_more_queues_take_little_more_memory(self) -> None:
        with ackline.open("memory://") as queues:
            queues["first"].enqueue_many([NewJob(1, id="a")])
            tracemalloc.start()
            for n in range(50):
                assert queues[f"customer-{n}"].enqueue_many([NewJob(1, id="a")]) == [Queued("a")]
            taken, _peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert taken < 2_000_000

    def test_none_are_none(self, queue: Queue[Any, Any]) -> None:
        assert queue.enqueue_many([]) == []

    def test_one_id_cannot_serve_many(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(ackline.InvalidOption, match=r"\bid\b"):
            queue.enqueue_many([1, 2], id="a")

    def test_a_bad_one_stores_nothing_of_its_chunk(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(ackline.InvalidPayload):
            queue.enqueue_many([1, 2, object()])
        assert queue.counts()[State.QUEUED] == 0


class TestWhen:
    def test_a_delay(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        assert queue.enqueue(1, id="a", delay=10) == Queued("a", State.SCHEDULED)
        clock.advance(9.99)
        assert queue.claim() == []
        clock.advance(0.01)
        assert len(queue.claim()) == 1

    def test_a_moment(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        moment = dt.datetime.fromtimestamp(clock.now() + 10, dt.UTC)
        queue.enqueue(1, run_at=moment)
        queue.enqueue(2, run_at=clock.now() + 20)
        clock.advance(10)
        assert [job.payload for job in queue.claim(2)] == [1]
        clock.advance(10)
        assert [job.payload for job in queue.claim(2)] == [2]

    def test_a_moment_that_has_passed_is_now(self, queue: Queue[Any, Any]) -> None:
        assert queue.enqueue(1, id="a", run_at=0) == Queued("a", State.QUEUED)

    def test_a_moment_in_another_zone(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        zone = dt.timezone(dt.timedelta(hours=5, minutes=45))
        queue.enqueue(1, id="a", run_at=dt.datetime.fromtimestamp(clock.now() + 5, zone))
        clock.advance(5)
        assert len(queue.claim()) == 1


class TestPayloads:
    @pytest.mark.parametrize(
        "payload",
        [
            None,
            True,
            0,
            -1.5,
            2**53,
            "",
            "ünïcödé \U0001f389 \x00 \n",
            [],
            {},
            {"nested": [{"deep": [None, "null", 1e300]}]},
            "x" * 1_000_000,
        ],
    )
    def test_come_back_as_they_were(self, queue: Queue[Any, Any], payload: Any) -> None:
        queue.enqueue(payload, id="a")
        assert queue.claim()[0].payload == payload
        job = queue.status("a")
        assert job is not None
        assert job.payload == payload

    def test_results_too_even_large_ones(self, queue: Queue[Any, Any]) -> None:
        result = {"rows": ["y" * 1000] * 1000}
        queue.enqueue(1, id="a")
        run(queue, result)
        assert queue.result("a") == result

    def test_are_typed_by_the_handlers_annotation(self, queue: Queue[Any, Any]) -> None:
        @queue.handler("mail")
        def send(job: Job[Mail]) -> None: ...

        queue.enqueue({"to": "a"}, kind="mail")
        assert queue.claim()[0].payload == Mail("a")

    def test_are_typed_by_the_queue(self, queues: Queues) -> None:
        queue = queues.queue("typed", payload=Mail, result=dict[str, int])
        queue.enqueue(Mail("a", 2), id="a")
        [job] = queue.claim()
        assert job.payload == Mail("a", 2)
        queue.complete(job, {"sent": 2})
        assert queue.result("a") == {"sent": 2}

    def test_of_another_type_are_refused_when_read(self, queue: Queue[Any, Any]) -> None:
        @queue.handler("mail")
        def send(job: Job[Mail]) -> None: ...

        other_queue = ackline.Queues(queue.store)[queue.name]
        other_queue.enqueue({"to": 5}, kind="mail")
        [job] = queue.claim()
        with pytest.raises(ackline.InvalidPayload, match="json"):
            _ = job.payload


class TestResultTypes:
    def test_a_result_of_another_type_is_refused_and_the_job_still_held(
        self, queues: Queues
    ) -> None:
        queue = queues.queue("typed", result=int)
        queue.enqueue(1, id="a")
        [job] = queue.claim()
        text: Any = "five"
        with pytest.raises(ackline.InvalidPayload, match="int"):
            queue.complete(job, text)
        queue.complete(job, 5)
        assert queue.result("a") == 5

    def test_a_handler_that_returns_another_type_fails(self, queues: Queues) -> None:
        queue = queues.queue("typed", result=int)

        @queue.handler
        def text(job: Job[Any]) -> str:
            return "five"

        queue.enqueue(1, id="a", max_attempts=1)
        drain(queue)
        with pytest.raises(ackline.JobFailed, match="int"):
            queue.result("a")

    def test_none_is_a_result_of_every_type(self, queues: Queues) -> None:
        queue = queues.queue("typed", result=int)
        queue.enqueue(1, id="a")
        run(queue)
        assert queue.enqueue(1, id="a") == Completed("a", None)

    def test_one_that_cannot_be_read_is_told_to_who_looks_at_it(self, queues: Queues) -> None:
        queues["typed"].enqueue(1, id="done")
        run(queues["typed"], "five")
        queue = queues.queue("typed", result=int)
        done, new = queue.enqueue_many([NewJob(1, id="done"), NewJob(2, id="new")])
        assert new == Queued("new")
        assert isinstance(done, Completed)
        assert (done.id, done.state) == ("done", State.COMPLETED)
        assert isinstance(queue.enqueue(1, id="done"), Completed)
        for look_up in (
            lambda: done.result,
            lambda: queue.result("done"),
            lambda: queue.enqueue_and_wait(1, id="done"),
        ):
            with pytest.raises(ackline.InvalidPayload, match="json"):
                look_up()


class Backwards:
    """A serde of one's own: binary, and like no other."""

    def dumps(self, value: Any) -> bytes:
        return b"\x00\xff" + str(value).encode()[::-1]

    def loads(self, data: bytes) -> Any:
        return data[2:][::-1].decode()


class TestSerdes:
    def test_msgpack_keeps_bytes(self, queues: Queues) -> None:
        queue = queues.queue("packed", serde="msgpack")
        queue.enqueue({"image": b"\x00\xff"}, id="a")
        [job] = queue.claim()
        assert job.payload == {"image": b"\x00\xff"}
        queue.complete(job, b"\x01")
        assert queue.result("a") == b"\x01"

    def test_one_of_ones_own(self, queues: Queues) -> None:
        queue = queues.queue("own", serde=Backwards())
        queue.enqueue("abc", id="a")
        [job] = queue.claim()
        assert job.record.payload == b"\x00\xffcba"
        assert job.payload == "abc"
        queue.complete(job, "xyz")
        assert queue.enqueue("abc", id="a") == Completed("a", "xyz")

    def test_another_one_for_results(self, queues: Queues) -> None:
        queue = queues.queue("mixed", serde="json", result_serde="msgpack")
        queue.enqueue([1], id="a")
        run(queue, b"\x01")
        assert queue.result("a") == b"\x01"

    def test_the_wrong_one_says_which_is_right(self, queues: Queues) -> None:
        queues.queue("packed", serde="msgpack").enqueue(1)
        queue = queues.queue("packed")
        [job] = queue.claim()
        with pytest.raises(ackline.InvalidPayload, match="msgpack"):
            _ = job.payload

    def test_one_that_cannot_is_refused(self, queues: Queues) -> None:
        with pytest.raises(ackline.InvalidPayload, match="dumps"):
            queues.queue("odd", serde=object())  # type: ignore[call-overload]


def test_an_option_of_none_is_as_if_it_was_not_given(queues: Queues) -> None:
    """So that callers can pass on what they may not have."""
    queue = queues["email"]
    nothing: Any = dict.fromkeys(EnqueueOptions.__annotations__)

    queue.enqueue(1, **nothing)
    queue.enqueue_many([NewJob(2, **nothing)], priority=9)
    queue.enqueue(3, run_at=None, delay=5.0)  # type: ignore[arg-type]

    jobs = queue.claim(10)
    assert [(job.payload, job.kind, job.priority) for job in jobs] == [
        (1, "default", 5),
        (2, "default", 5),
    ]
    assert all(job.record.options == Options() for job in jobs)
    assert queue.counts()[State.SCHEDULED] == 1


@pytest.mark.every_store
def test_the_correlation_id_of_a_message_is_kept_and_searched(queues: Queues) -> None:
    queue = queues["email"]
    queue.enqueue(1, id="a", correlation_id="order-7", tags=["vip"])
    queue.enqueue_many([NewJob(2, id="b", correlation_id="order-7"), NewJob(3, id="c")])

    found = queue.jobs(tags=["correlation_id:order-7"])

    assert [(job.id, job.correlation_id) for job in found] == [("a", "order-7"), ("b", "order-7")]
    assert [job.correlation_id for job in queue.claim(3)] == ["order-7", "order-7", None]
    with pytest.raises(InvalidName, match="correlation_id must be a str"):
        queue.enqueue(1, correlation_id=7)  # type: ignore[arg-type]


def test_a_receipt_whose_result_cannot_be_read_can_be_printed_and_compared() -> None:
    error = ackline.InvalidPayload("not an int")
    receipt = CompletedUndecodable("a", error)
    assert repr(receipt) == "CompletedUndecodable(id='a', error=InvalidPayload('not an int'))"
    assert receipt in {CompletedUndecodable("a", error)}
    assert receipt != CompletedUndecodable("b", error)
    assert receipt != ackline.Completed("a", 1)
