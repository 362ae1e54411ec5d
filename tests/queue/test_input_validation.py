"""Bad input is refused with a typed error, and nothing is stored."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ackline
from ackline import (
    InvalidJob,
    InvalidName,
    InvalidOption,
    InvalidPayload,
    PayloadTooLarge,
    Queue,
    Queues,
    aio,
)
from ackline.aio import AsyncQueues

NAIVE = dt.datetime(2026, 1, 1)  # noqa: DTZ001
AWARE = dt.datetime(2126, 1, 1, tzinfo=dt.UTC)
ANCIENT, FAR = (dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in (1960, 9999))
NAN, INFINITE = float("nan"), float("inf")


@pytest.fixture
def queue(queues: Queues) -> Iterator[Queue[Any, Any]]:
    """A queue that must be empty at the end."""
    queue = queues["email"]
    yield queue
    assert sum(queue.counts().values()) == 0
    assert list(queue.events()) == []


@pytest.mark.parametrize("url", ["carrier-pigeon://loft", "jobs.db", "", "://", "redish://x"])
def test_a_store_that_nobody_knows(url: str) -> None:
    with pytest.raises(ackline.UnknownStore, match="memory://"):
        ackline.open(url)


@pytest.mark.parametrize("url", ["rediss", "http", "sqlite", "memory"])
def test_a_scheme_alone_is_no_url(url: str) -> None:
    with pytest.raises(ackline.UnknownStore, match="memory://"):
        ackline.open(url)


@pytest.mark.parametrize("url", [None, 5, b"memory://"])
def test_what_is_no_url(url: Any) -> None:
    with pytest.raises(ackline.ConfigError, match="sqlite:///"):
        ackline.open(url)


@pytest.mark.parametrize("url", ["sqlite:///a\0b", "sqlite:///a%00b"])
def test_a_file_whose_name_no_system_takes(url: str) -> None:
    with pytest.raises(ackline.ConfigError, match="file"):
        ackline.open(url)


def test_a_path_is_a_file_of_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "100% of jobs?.db"
    with ackline.open(path) as queues:
        queues["email"].enqueue(1)
        assert queues.info().location == str(path)


def test_a_memory_store_with_a_name() -> None:
    with pytest.raises(ackline.ConfigError):
        ackline.open("memory://name")


@pytest.mark.parametrize(
    "payload",
    [
        object(),
        {1, object()},
        lambda: None,
        NAN,
        [1, {"deep": INFINITE}],
        {"not": -INFINITE},
        "lone \ud800 surrogate",
        {"key \udfff": 1},
        {(1, 2): 3},
        {NAN: 1},
        [{"deep": {-INFINITE: 1}}],
        msgspec.Raw(b"garbage"),
        msgspec.Raw(b""),
        msgspec.Raw(b"1e400"),
        msgspec.Raw(b'"\xff"'),
        {"deep": [msgspec.Raw(b"{broken")]},
        {"deep": msgspec.Raw(b"")},
        {"deep": msgspec.Raw(b'"\xff"')},
    ],
    ids=[
        "object",
        "set",
        "function",
        "nan",
        "infinity",
        "minus-infinity",
        "surrogate",
        "surrogate-key",
        "tuple-key",
        "nan-key",
        "infinity-key",
        "raw",
        "raw-empty",
        "raw-out-of-range",
        "raw-not-unicode",
        "deep-raw",
        "deep-raw-empty",
        "deep-raw-not-unicode",
    ],
)
def test_a_payload_that_cannot_be_kept(queue: Queue[Any, Any], payload: Any) -> None:
    with pytest.raises(InvalidPayload, match="json"):
        queue.enqueue(payload)


def test_a_payload_that_contains_itself(queue: Queue[Any, Any]) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidPayload):
        queue.enqueue(endless)


def test_a_payload_that_is_too_large(queue: Queue[Any, Any]) -> None:
    with pytest.raises(PayloadTooLarge) as caught:
        queue.enqueue("x" * (1024 * 1024 - 1))
    assert (caught.value.size, caught.value.limit) == (1024 * 1024 + 1, 1024 * 1024)


def test_the_largest_payload_is_taken(queues: Queues) -> None:
    queues["email"].enqueue("x" * (1024 * 1024 - 2))
    assert len(queues["email"].claim()[0].payload) == 1024 * 1024 - 2


def test_the_limit_can_be_set(queues: Queues) -> None:
    small = queues.queue("small", max_payload=10)
    small.enqueue("x" * 8)
    with pytest.raises(PayloadTooLarge):
        small.enqueue("x" * 9)
    large = queues.queue("large", max_payload=5_000_000)
    large.enqueue("x" * 4_000_000)


def test_raw_json_and_texts_that_look_like_numbers_are_taken(queues: Queues) -> None:
    queue = queues["email"]
    for payload in (msgspec.Raw(b'{"a": [null, "\xc3\xbc"]}'), {"nan": 1, "-inf": 2}, {1.5: 1}):
        queue.enqueue(payload)
    assert [job.payload for job in queue.claim(3)] == [
        {"a": [None, "ü"]},
        {"nan": 1, "-inf": 2},
        {"1.5": 1},
    ]


class TestNames:
    @pytest.mark.parametrize("name", ["", "x" * 513, "ü" * 257, "\ud800", 5, b"x", 1.5])
    @pytest.mark.parametrize("what", ["id", "kind", "group"])
    def test_that_cannot_be_kept(self, queue: Queue[Any, Any], what: str, name: Any) -> None:
        options: Any = {what: name}
        with pytest.raises(InvalidName if what != "group" else InvalidJob, match=what):
            queue.enqueue(1, **options)

    @pytest.mark.parametrize("name", ["", "x" * 513, "\ud800"])
    def test_of_queues_and_tenants(self, queues: Queues, name: str) -> None:
        with pytest.raises(InvalidName):
            queues[name]
        with pytest.raises(InvalidName):
            ackline.open("memory://", tenant=name)

    @pytest.mark.parametrize(
        "name",
        [
            "x" * 512,
            "ü" * 256,
            "a b",
            "a:b",
            "a/b",
            "\x00",
            "\n",
            "%",
            "'; --",
            "{x}",
            "*",
            "\U0001f389",
        ],
    )
    def test_of_any_characters_are_kept(self, queues: Queues, name: str) -> None:
        queue = queues[name]
        queue.enqueue(1, id=name, kind=name, group=name)
        [job] = queue.claim()
        assert (job.id, job.kind, job.queue, job.record.options.group) == (name,) * 4
        queue.complete(job)
        status = queue.status(name)
        assert status is not None
        assert status.kind == name
        assert [event.id for event in queue.events()] == [name] * 3

    def test_that_could_be_mixed_up_are_not(self, queues: Queues) -> None:
        pairs = [("a:b", "c"), ("a", "b:c"), ("a/b", "c"), ("a", "b/c"), ("a\x00b", "c")]
        for tenant, name in pairs:
            Queues(queues.store, tenant)[name].enqueue(f"{tenant}|{name}", id="x")
        for tenant, name in pairs:
            [job] = Queues(queues.store, tenant)[name].claim(10)
            assert job.payload == f"{tenant}|{name}"


@pytest.mark.parametrize("priority", [-1, 10, 5.0, True, False, "5"])
def test_a_priority_outside_0_to_9(queue: Queue[Any, Any], priority: Any) -> None:
    with pytest.raises(InvalidOption, match="priority"):
        queue.enqueue(1, priority=priority)


@pytest.mark.parametrize("delay", [-1, -0.001, NAN, INFINITE, True, "5", 1e12])
def test_a_delay_that_is_none(queue: Queue[Any, Any], delay: Any) -> None:
    with pytest.raises(InvalidOption, match="delay"):
        queue.enqueue(1, delay=delay)


@pytest.mark.parametrize(
    "moment", [NAIVE, ANCIENT, FAR, -1, NAN, INFINITE, 1e12, "2026-01-01", True]
)
def test_a_moment_that_is_none(queue: Queue[Any, Any], moment: Any) -> None:
    with pytest.raises(InvalidOption, match="run_at"):
        queue.enqueue(1, run_at=moment)


def test_both_a_delay_and_a_moment(queue: Queue[Any, Any]) -> None:
    with pytest.raises(InvalidOption, match="both"):
        queue.enqueue(1, delay=1, run_at=AWARE)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": 1.5},
        {"max_attempts": True},
        {"max_attempts": "3"},
        {"lease": 0},
        {"lease": -1},
        {"lease": NAN},
        {"timeout": 0},
        {"timeout": "5"},
        {"result_ttl": -1},
        {"result_ttl": INFINITE},
        {"backoff": []},
        {"backoff": [-1]},
        {"backoff": -1},
        {"backoff": "fast"},
        {"backoff": ackline.exponential(jitter="some")},  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_other_options_outside_their_range(queue: Queue[Any, Any], options: Any) -> None:
    with pytest.raises(InvalidOption):
        queue.enqueue(1, **options)


def test_an_option_that_nobody_knows(queue: Queue[Any, Any]) -> None:
    with pytest.raises(TypeError, match="prioritty"):
        queue.enqueue(1, prioritty=5)  # type: ignore[call-arg]


class TestOptionsInTheWrongPlace:
    HINT = r"ackline\.Policy\((max_attempts|keep_failed)="

    def test_of_a_policy_among_a_queues_settings(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(ackline.ConfigError, match=self.HINT):
            queue.configure(max_attempts=5)

    def test_of_a_policy_for_a_handler_or_a_job(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(TypeError, match=self.HINT):
            queue.handler("mail", keep_failed=5)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=self.HINT):
            queue.enqueue(1, keep_failed=5)  # type: ignore[call-arg]

    def test_of_a_policy_when_something_is_opened(self, queue: Queue[Any, Any]) -> None:
        queue.handler(print)
        for make in (
            lambda: ackline.open("memory://", max_attempts=5),  # type: ignore[call-arg]
            lambda: aio.open("memory://", max_attempts=5),  # type: ignore[call-arg]
            lambda: Queues(queue.store).queue("email", max_attempts=5),  # type: ignore[call-overload]
            lambda: AsyncQueues(Queues(queue.store)).queue("email", max_attempts=5),  # type: ignore[call-overload]
            lambda: ackline.Worker(queue, max_attempts=5),  # type: ignore[call-arg]
        ):
            with pytest.raises(TypeError, match=self.HINT):
                make()

    def test_a_slip_of_the_pen(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(ackline.ConfigError, match=r"\bpolicy\b"):
            queue.configure(polcy=ackline.Policy())
        with pytest.raises(TypeError, match=r"\bmax_attempts\b"):
            queue.handler("mail", max_attempt=5)  # type: ignore[call-overload]

    def test_what_nobody_can_guess(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(TypeError, match="zzz"):
            queue.enqueue(1, zzz=5)  # type: ignore[call-arg]


class Email(msgspec.Struct):
    to: str


class TestPayloadsOfAnotherTypeThanDeclared:
    WHY = r"default.* Email: .*to`"

    def test_by_the_queue(self, queue: Queue[Any, Any], queues: Queues) -> None:
        typed: Queue[Any, Any] = queues.queue("email", payload=Email)
        for payload in ({}, {"to": 5}, "ann", None):
            with pytest.raises(InvalidPayload, match="Email"):
                typed.enqueue(payload)
        with pytest.raises(InvalidPayload, match=self.WHY):
            typed.enqueue_many([{"to": "ann"}, {"to": 5}])

    def test_by_a_handler_of_this_process(self, queue: Queue[Any, Any]) -> None:
        @queue.handler
        def send(job: ackline.Job[Email]) -> None: ...

        with pytest.raises(InvalidPayload, match=self.WHY):
            queue.enqueue({})

    def test_when_a_job_is_edited(self, queues: Queues) -> None:
        typed: Queue[Any, Any] = queues.queue("edited", payload=Email)
        typed.enqueue({"to": "ann"}, id="one")
        with pytest.raises(InvalidPayload, match=self.WHY):
            typed.edit("one", payload={})
        [job] = typed.claim()
        assert job.payload == Email("ann")

    def test_a_handlers_type_comes_before_that_of_the_queue(self, queues: Queues) -> None:
        typed: Queue[Any, Any] = queues.queue("numbers", payload=Email)

        @typed.handler("number")
        def count(job: ackline.Job[int]) -> None: ...

        typed.enqueue(5, kind="number")
        with pytest.raises(InvalidPayload, match="int"):
            typed.enqueue({"to": "ann"}, kind="number")

    def test_with_a_serde_of_ones_own(self, queue: Queue[Any, Any], queues: Queues) -> None:
        for serde in ("msgpack", OWN):
            typed: Queue[Any, Any] = queues.queue("email", payload=Email, serde=serde)
            with pytest.raises(InvalidPayload, match=self.WHY):
                typed.enqueue({})


class _Own:
    name = "own"

    def dumps(self, value: Any) -> bytes:
        return msgspec.json.encode(value)

    def loads(self, data: bytes) -> Any:
        return msgspec.json.decode(data)


OWN = _Own()


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"a": 1}},
        {"headers": "x"},
        {"trace": 5},
        {"trace": "lone \ud800 surrogate"},
        {"headers": {"lone \ud800 surrogate": "x"}},
        {"keys_if_undelivered": [[1]]},
        {"keys_if_undelivered": [["lone \ud800 surrogate"]]},
        {"keys_if_undelivered": [["fine"], ["x" * 500] * 5]},
    ],
    ids=str,
)
def test_options_that_a_store_could_write_but_not_read(
    queue: Queue[Any, Any], options: Any
) -> None:
    with pytest.raises(InvalidOption):
        queue.enqueue(1, **options)


@pytest.mark.parametrize("keys", [5, [5], [None], "key", ["key"]])
def test_keys_that_are_no_lists_of_texts(queue: Queue[Any, Any], keys: Any) -> None:
    with pytest.raises(InvalidOption, match="keys"):
        queue.enqueue(1, keys_if_undelivered=keys)


class TestNumbers:
    @pytest.mark.parametrize("limit", [1.5, 0.5, -1, True, "1", None, NAN])
    def test_of_jobs_to_claim(self, queues: Queues, limit: Any) -> None:
        queue = queues["email"]
        queue.enqueue_many(range(5))
        with pytest.raises(InvalidOption, match="limit"):
            queue.claim(limit)
        assert queue.counts()[ackline.State.QUEUED] == 5
        assert queue.claim(0) == []

    @pytest.mark.parametrize("wait", [-1, NAN, "5", True])
    def test_of_seconds_to_wait(self, queue: Queue[Any, Any], wait: Any) -> None:
        with pytest.raises(InvalidOption, match="wait"):
            queue.claim(wait=wait)

    @pytest.mark.parametrize("limit", [0, 1.5, -1, True])
    def test_of_jobs_on_a_page(self, queue: Queue[Any, Any], limit: Any) -> None:
        with pytest.raises(InvalidOption, match="limit"):
            queue.jobs(limit=limit)


@pytest.mark.parametrize("after", [-1, 10**15, "x", "1.x"])
def test_what_is_no_cursor(queue: Queue[Any, Any], after: Any) -> None:
    with pytest.raises(InvalidOption, match=r"event\.cursor"):
        queue.events(after)


def test_a_job_is_not_moved_to_where_it_is(queues: Queues) -> None:
    queues["email"].enqueue(1, id="a")
    with pytest.raises(InvalidOption, match="email"):
        queues["email"].move("a", "email")


def test_what_is_easily_mistaken(queue: Queue[Any, Any]) -> None:
    with pytest.raises(InvalidOption, match="str"):
        queue.enqueue_many("abc")
    nothing: Any = None
    with pytest.raises(InvalidOption, match="NoneType"):
        queue.enqueue_many(nothing)
    with pytest.raises(InvalidOption, match="keys"):
        queue.enqueue(1, keys_if_undelivered="abc")
    with pytest.raises(InvalidOption, match="scheduled"):
        queue.jobs(states=["waiting"])
    with pytest.raises(InvalidOption, match="65,536"):
        queue.enqueue(1, headers={"a": "x" * 70_000})
    with pytest.raises(InvalidOption, match="1,000,000"):
        queue.enqueue(1, max_attempts=10**20)
    assert queue.jobs(states="queued").jobs == []
    assert sum(queue.counts().values()) == 0
