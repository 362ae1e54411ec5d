"""What a route may return: receipts as they are."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.encoders import jsonable_encoder
from pydantic import TypeAdapter

from ackline import Queue, Queued, Queues
from ackline.queue import Enqueued


@pytest.fixture
def queue(queues: Queues) -> Queue[Any, Any]:
    return queues["email"]


def as_annotated(receipt: Enqueued) -> Any:
    return TypeAdapter(Enqueued).dump_python(receipt, mode="json")


@pytest.mark.parametrize("to_json", [jsonable_encoder, as_annotated])
def test_a_route_returns_receipts(queue: Queue[Any, Any], to_json: Callable[[Any], Any]) -> None:
    assert to_json(queue.enqueue(1, id="a")) == {"id": "a", "state": "queued"}
    assert to_json(queue.enqueue(1, id="a")) == {"id": "a", "state": "queued"}
    queue.complete(queue.claim()[0], {"sent": True})
    assert to_json(queue.enqueue(1, id="a")) == {
        "id": "a",
        "result": {"sent": True},
        "state": "completed",
    }


def test_receipts_compare_print_and_hash() -> None:
    assert Queued("a") == Queued("a")
    assert repr(Queued("a")) == "Queued(id='a', state=<State.QUEUED: 'queued'>)"
    assert len({Queued("a"), Queued("a")}) == 1
    assert TypeAdapter(Queued).dump_python(Queued("a"), mode="json") == {
        "id": "a",
        "state": "queued",
    }


@pytest.mark.parametrize("module", ["ackline", "ackline.aio"])
def test_a_star_import_leaves_the_built_in_open(module: str) -> None:
    names: dict[str, Any] = {"open": builtins.open}
    exec(f"from {module} import *", names)
    assert names["open"] is builtins.open
