"""What a handler's signature says about its payload."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Annotated, Any, Optional

import msgspec
import pytest

import ackline
from ackline import ConfigError, Job
from ackline.core.config import Policy
from ackline.queue import Queue

if TYPE_CHECKING:
    from ackline.core.job import Draft as OnlyForCheckers


class Email(msgspec.Struct):
    to: str


def called(handler: Any) -> str:
    return getattr(handler, "__name__", "") or type(handler).__name__


@pytest.fixture
def queue() -> Queue[Any, Any]:
    return ackline.open("memory://")["work"]


def typed(job: Job[Email]) -> None: ...
def optional(job: Optional[Job[Email]]) -> None: ...  # noqa: UP045
def union(job: Job[Email] | None) -> None: ...
def annotated(job: Annotated[Job[Email], "note"]) -> None: ...
def with_more(retries: int, job: Job[Email]) -> None: ...
async def asynchronous(job: Job[Email]) -> None: ...


class Greeter:
    def __call__(self, job: Job[Email]) -> None: ...

    def method(self, job: Job[Email]) -> None: ...


@dataclasses.dataclass
class Configured:
    limits: list[int]

    def __call__(self, job: Job[Email]) -> None: ...


def untyped(job): ...
def plain(job: Job) -> None: ...
def unknown(job: OnlyForCheckers) -> None: ...


@pytest.mark.parametrize(
    "handler",
    [
        typed,
        optional,
        union,
        annotated,
        asynchronous,
        functools.partial(with_more, 3),
        Greeter(),
        Greeter().method,
        Configured([1]),
    ],
    ids=called,
)
def test_the_payload_type_is_found(queue: Queue[Any, Any], handler: Any) -> None:
    queue.handler(handler)
    assert queue.handlers["default"].payload_type is Email


@pytest.mark.parametrize("handler", [untyped, plain, unknown, print], ids=called)
def test_a_handler_that_does_not_say_gets_what_was_enqueued(
    queue: Queue[Any, Any], handler: Any
) -> None:
    queue.handler(handler)
    assert queue.handlers["default"].payload_type is Any


def bare(job: Email) -> None: ...
def listed(job: list[int]) -> None: ...
def generator(job):
    yield job


async def async_generator(job):
    yield job


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (bare, r"Job\[Email\]"),
        (listed, r"Job\[list"),
        (lambda: None, "argument"),
        (generator, "yield"),
        (async_generator, "yield"),
    ],
    ids=called,
)
def test_what_cannot_be_a_handler_is_refused_at_once(
    queue: Queue[Any, Any], handler: Any, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        queue.handler("k")(handler)


def test_what_cannot_be_called_is_refused(queue: Queue[Any, Any]) -> None:
    with pytest.raises(ConfigError):
        queue.handler("k")(5)  # type: ignore[type-var]


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 2.5},
        {"max_attempts": True},
        {"backoff": "fast"},
        {"backoff": ackline.exponential(jitter="some")},  # type: ignore[arg-type]
        {"lease": "30"},
    ],
    ids=str,
)
def test_options_that_other_processes_could_not_read_are_refused(
    queue: Queue[Any, Any], options: dict[str, Any]
) -> None:
    """A worker publishes its handlers' options: a wrong one would stop the whole tenant."""
    with pytest.raises(ackline.InvalidOption):
        queue.handler("k", **options)

    assert not queue.handlers


def published(queues: ackline.Queues, **options: Any) -> Policy | None:
    """What is stored for a kind when a worker with this handler has started."""
    queue = queues.queue("work")
    queue.handler("mail", **options)(lambda job: None)
    queue.policies.publish()
    assert queue.policies.settings() == queue.settings()
    return queue.settings().kinds.get("mail")


class TestOptionsOfEarlierHandlers:
    @pytest.fixture
    def queues(self) -> ackline.Queues:
        return ackline.open("memory://")

    def test_are_gone_when_they_are_removed(self, queues: ackline.Queues) -> None:
        first = published(queues, max_attempts=1, timeout=5)
        assert first is not None
        assert (first.max_attempts, first.timeout) == (1, 5)
        second = published(queues, timeout=5)
        assert second is not None
        assert (second.max_attempts, second.timeout) == (None, 5)
        assert published(queues) is None

    def test_stay_for_kinds_that_this_worker_does_not_run(self, queues: ackline.Queues) -> None:
        other = queues.queue("work")
        other.handler("image", timeout=9)(lambda job: None)
        other.policies.publish()
        assert published(queues) is None
        assert queues["work"].settings().kinds["image"].timeout == 9

    def test_are_told_from_what_was_configured(self, queues: ackline.Queues) -> None:
        configured = Policy(timeout=7, keep_failed=60.0)
        queues["work"].configure(kinds={"mail": configured})
        assert published(queues) == configured


def test_a_second_handler_of_a_kind_is_refused_by_the_names_of_both(queue: Queue[Any, Any]) -> None:
    class Sender:
        def __call__(self, job: Job[Any]) -> None: ...

    def first(job: Job[Any]) -> None: ...

    queue.handler("a")(first)
    queue.handler("b")(functools.partial(first))
    where = f"{__name__}:test_a_second_handler_of_a_kind_is_refused_by_the_names_of_both.<locals>"
    for kind in ("a", "b"):
        with pytest.raises(ackline.ConfigError) as caught:
            queue.handler(kind)(Sender())
        assert str(caught.value) == (
            f"kind {kind!r} has a handler already, {where}.first, so {where}.Sender needs "
            'a kind of its own: @queue.handler("…")'
        )
