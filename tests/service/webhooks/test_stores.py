"""Webhooks on every store, which keeps the journal, the deliveries and the webhooks."""

from __future__ import annotations

import msgspec
import pytest
from tests.service.webhooks import fast_service
from tests.service.webhooks.fast_service import deliver_all, deliveries, subscribe
from tests.waiting import until

import ackline
from ackline.queues import Queues

JOBS = 30


pytestmark = pytest.mark.every_store


@pytest.fixture
def live(store_url):
    # Many deliveries at once on a busy machine: none of them may time out and be repeated.
    live = fast_service.start(
        store=store_url, webhooks=msgspec.structs.replace(fast_service.HERE, timeout=30.0)
    )
    yield live
    live.stop()


def test_every_finished_job_is_delivered_once_per_receiver(live, receiver):
    made = subscribe(live, receiver, states=["completed"], queues=["email"])
    queue = Queues(live.runtime.store)["email"]
    ids = [str(number) for number in range(JOBS)]
    queue.enqueue_many(ackline.NewJob(id, id=id, callback_url=receiver.url) for id in ids)
    for job in queue.claim(JOBS):
        queue.complete(job, None)

    receiver.wait_for(2 * JOBS)

    assert deliver_all(live, receiver) == 2 * JOBS
    assert receiver.jobs == dict.fromkeys(ids, 2)
    assert len({message.id for message in receiver.received}) == 2 * JOBS
    for webhook in (made["id"], "callbacks"):
        until(lambda webhook=webhook: len(deliveries(live, webhook, state="completed")) == JOBS)  # type: ignore[misc]


def test_a_failed_delivery_can_be_redelivered(live, receiver):
    made = subscribe(live, receiver, acts=["enqueue"])
    receiver.answer = lambda _request: 500
    live.api.post("/v1/queues/email/jobs", {"payload": 1, "id": "a"}, 201)
    [failed] = until(lambda: deliveries(live, made["id"], state="failed"))
    receiver.answer = lambda _request: 200

    path = f"/v1/webhooks/{made['id']}/deliveries/{failed['id']}/redeliver"
    live.api.post(path, status=202)

    until(lambda: deliveries(live, made["id"], state="completed"))
    assert {message.id for message in receiver.received} == {failed["id"]}
