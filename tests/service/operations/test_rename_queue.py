"""A rename moves everything of a queue, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ackline.core.job import QueueKey
from ackline.queues import Queues
from ackline.service.operations import rename_queue
from ackline.stores.contract import KeyWrite, find_each_job

OLD, NEW = "/v1/queues/email", "/v1/queues/mail"


def add(api: Any, queue: str, *ids: str) -> None:
    jobs = [{"payload": 1, "id": id} for id in ids]
    api.post(f"{queue}/jobs/batch", {"jobs": jobs})


def queued(api: Any, queue: str) -> int:
    return int(api.get(queue)["counts"]["queued"])


def test_queues_are_only_merged_on_request(api):
    add(api, OLD, "a")
    add(api, NEW, "b")

    problem = api.post(f"{OLD}/rename", {"to": "mail"}, 409)

    assert "merge" in problem["detail"]
    assert (queued(api, OLD), api.get(OLD)["paused"]) == (1, False)
    assert api.post(f"{OLD}/rename", {"to": "mail", "merge": True})["counts"]["queued"] == 2
    api.get(OLD, 404)


def test_an_id_that_both_have_is_found_before_anything_moves(api):
    api.patch(OLD, {"group_limit": 3})
    add(api, OLD, "a", "b", "c", "d")
    add(api, NEW, "c")

    problem = api.post(f"{OLD}/rename", {"to": "mail", "merge": True}, 409)

    assert "'c'" in problem["detail"]
    assert (queued(api, OLD), api.get(OLD)["paused"]) == (4, False)
    assert (queued(api, NEW), api.get(NEW)["settings"]) == (1, {})


def test_a_concurrent_enqueue_of_the_same_id_undoes_the_rename(api, monkeypatch):
    monkeypatch.setattr(rename_queue, "PAGE", 2)
    api.patch(OLD, {"group_limit": 3})
    add(api, OLD, "a", "b", "c", "d")

    def find_too_early(store: Any, target: QueueKey, ids: Sequence[str]) -> list[Any]:
        found = list(find_each_job(store, target, ids))
        if "d" in ids:
            Queues(store, target.tenant)[target.name].enqueue(1, id="d")
        return found

    monkeypatch.setattr(rename_queue, "find_each_job", find_too_early)

    api.post(f"{OLD}/rename", {"to": "mail"}, 409)

    assert (queued(api, OLD), api.get(OLD)["paused"]) == (4, False)
    assert (queued(api, NEW), api.get(NEW)["settings"]) == (1, {})


@pytest.mark.parametrize("paused", [True, False])
def test_a_queue_is_paused_afterwards_if_it_was_before(api, paused):
    add(api, OLD, "a")
    if paused:
        api.post(f"{OLD}/pause")

    assert api.post(f"{OLD}/rename", {"to": "mail"})["paused"] is paused


def test_recovery_counts_are_moved(api, runtime):
    add(api, OLD, "a")
    key = ackline_key("recovered", "email")
    runtime.store.write_keys("default", [KeyWrite(key=key, value=b"{}")])

    api.post(f"{OLD}/rename", {"to": "mail"})

    [kept] = runtime.store.read_keys("default", ("ackline", "recovered"), 10)
    assert kept.key == ackline_key("recovered", "mail")


def ackline_key(*parts: str) -> tuple[str, ...]:
    return ("ackline", *parts)


def test_a_rename_cut_short_by_a_crash_is_finished_by_repeating_it(api, runtime):
    """The state after a kill: the old queue paused, and some of its jobs moved."""
    queues = Queues(runtime.store)
    old, new = queues["email"], queues["mail"]
    old.configure(max_jobs=9)
    old.enqueue_many(range(4))
    runtime.store.configure(new.key, old.settings())
    old.pause()
    for job in old.jobs(limit=2).jobs:
        old.move(job.id, "mail")

    renamed = api.post(f"{OLD}/rename", {"to": "mail", "merge": True})

    assert (renamed["counts"]["queued"], renamed["paused"]) == (4, False)
    assert renamed["settings"]["max_jobs"] == 9
    api.get(OLD, 404)
