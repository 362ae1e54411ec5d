"""A client of several queues: a busy queue does not starve the others."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager

import httpx
import pytest
from httpx_sse import connect_sse
from tests.waiting import until

from ackline.service import Settings
from ackline.service.delivery.fair_share import FairShareCache
from ackline.worker.fair_share import FairShare


@pytest.fixture
def settings(store_url) -> Settings:
    return Settings(store=store_url, drain=0.05)


NOISY_AND_QUIET = {"queue": ["noisy", "quiet"]}


def fill(api, queue, count, **options):
    jobs = [{"payload": n, "id": f"{queue}-{n}", **options} for n in range(count)]
    api.post(f"/v1/queues/{queue}/jobs/batch", {"jobs": jobs})


def poll(api, **query):
    message = api.get("/queue/poll", **NOISY_AND_QUIET, **query)["message"]
    if message is not None:
        done = {name: message[name] for name in ("id", "receipt", "queue")}
        api.post("/queue/ack", done)
    return message


def polled(api, count, **query):
    return Counter(poll(api, **query)["queue"] for _ in range(count))


class TestPoll:
    def test_each_queue_has_its_share_of_single_requests(self, api):
        fill(api, "noisy", 40)
        fill(api, "quiet", 10)

        assert polled(api, 20) == {"noisy": 10, "quiet": 10}
        assert polled(api, 20) == {"noisy": 20}

    def test_weights_count(self, api):
        fill(api, "noisy", 40)
        fill(api, "quiet", 40)

        assert polled(api, 40, weight=[3, 1]) == {"noisy": 30, "quiet": 10}

    def test_control_without_a_cache_the_second_queue_starves(self, api, monkeypatch):
        of = FairShareCache.of
        monkeypatch.setattr(
            FairShareCache, "of", lambda _shares, *args: of(FairShareCache(), *args)
        )
        fill(api, "noisy", 40)
        fill(api, "quiet", 10)

        assert polled(api, 20) == {"noisy": 20}

    def test_an_idle_queue_does_not_save_up_its_share(self, api):
        fill(api, "noisy", 60)
        polled(api, 30)
        fill(api, "quiet", 30)

        shares = polled(api, 20)
        assert 10 <= shares["quiet"] <= 12

    def test_a_wait_ends_with_the_first_message_of_any_queue(self, live):
        with httpx.Client(base_url=live.url) as other:
            other.post(
                "/api/queue/enqueue?queue=quiet", json={"value": 1, "options": {"delay": 200}}
            )

        assert poll(live.api, wait=10)["queue"] == "quiet"

    @pytest.mark.parametrize(
        ("query", "at"),
        [
            ({"queue": ["a", "a"]}, "queue"),
            ({"queue": [f"q{n}" for n in range(65)]}, "queue"),
            ({"queue": ["a", "b"], "weight": [1]}, "weight"),
            ({"queue": ["a", "b"], "weight": [1, 0]}, "weight"),
            ({"queue": ["a", "b"], "weight": [1, "nan"]}, "weight"),
            ({"queue": ["a", "b"], "weight": [1, "inf"]}, "weight"),
        ],
    )
    def test_invalid_queues_and_weights_are_refused(self, api, query, at):
        assert api.get("/queue/poll", 422, **query)["at"] == at

    def test_names_may_have_any_characters(self, api):
        names = ["a:3", "b,c", "d&e=f", "g h/ü"]
        for name in names:
            api.post("/queue/enqueue", {"value": name, "options": {"queue": name}})

        found = [api.get("/queue/poll", queue=names)["message"] for _ in names]
        assert sorted(message["queue"] for message in found) == sorted(names)


class TestClaims:
    def claim(self, api, limit, **fields):
        found = api.post("/v1/claims", {"queues": ["noisy", "quiet"], "limit": limit, **fields})
        return Counter(job["queue"] for job in found["jobs"])

    def test_one_batch_is_shared(self, api):
        fill(api, "noisy", 100)
        fill(api, "quiet", 100)

        assert self.claim(api, 40) == {"noisy": 20, "quiet": 20}
        assert self.claim(api, 40, weights=[1, 3]) == {"noisy": 10, "quiet": 30}

    def test_unused_shares_go_to_other_queues(self, api):
        fill(api, "noisy", 100)
        fill(api, "quiet", 3)

        assert self.claim(api, 40) == {"noisy": 37, "quiet": 3}

    def test_jobs_are_settled_in_their_queue(self, api):
        fill(api, "noisy", 1)
        (job,) = api.post("/v1/claims", {"queues": ["quiet", "noisy"], "limit": 5})["jobs"]

        outcome = {"id": job["id"], "token": job["token"], "outcome": "complete"}
        settled = api.post(f"/v1/queues/{job['queue']}/settle", {"outcomes": [outcome]})
        assert settled["results"][0]["ok"]

    def test_jobs_claimed_before_an_error_are_released(self, api, runtime, monkeypatch):
        fill(api, "noisy", 5)
        fill(api, "quiet", 5)
        claim = runtime.store.claim

        def break_down(queue, request, *more):
            if queue.name == "quiet":
                raise ConnectionError("the store is gone")
            return claim(queue, request, *more)

        monkeypatch.setattr(runtime.store, "claim", break_down)
        api.post("/v1/claims", {"queues": ["noisy", "quiet"], "limit": 4}, status=500)
        monkeypatch.undo()

        until(lambda: not api.get("/queue/stats?queue=noisy")["processing"])
        assert self.claim(api, 10) == {"noisy": 5, "quiet": 5}


@contextmanager
def stream(live, path, **query):
    base = live.runtime.settings.base
    with (
        httpx.Client(base_url=live.url, timeout=10) as client,
        connect_sse(client, "GET", base + path, params=query) as source,
    ):
        found = (event for event in source.iter_sse() if event.event != "ping")
        yield (json.loads(event.data) for event in found)


def ack(live, message):
    done = {name: message[name] for name in ("id", "receipt", "queue")}
    live.api.post("/queue/ack", done)


def process_all(live, messages, count):
    """This many messages, each acknowledged before the next is read."""
    seen = []
    for _ in range(count):
        message = next(messages)
        seen.append(message["queue"])
        ack(live, message)
    return seen


class TestListen:
    def test_a_quiet_queue_beside_a_noisy_one(self, live):
        fill(live.api, "noisy", 200)

        with stream(live, "/queue/listen", prefetch=4, **NOISY_AND_QUIET) as messages:
            process_all(live, messages, 20)
            fill(live.api, "quiet", 5)
            seen = process_all(live, messages, 20)

        # What was on its way goes first, then they alternate.
        assert seen.count("quiet") == 5
        assert max(n for n, queue in enumerate(seen) if queue == "quiet") < 4 + 2 * 5

    def test_control_the_first_queue_gets_everything(self, live, monkeypatch):
        monkeypatch.setattr(FairShare, "next_share", lambda _self, among, jobs: (among[0], jobs))
        fill(live.api, "noisy", 200)

        with stream(live, "/queue/listen", prefetch=4, **NOISY_AND_QUIET) as messages:
            process_all(live, messages, 20)
            fill(live.api, "quiet", 5)

            assert process_all(live, messages, 20) == ["noisy"] * 20

    def test_the_window_is_one_for_all_queues(self, live):
        fill(live.api, "noisy", 10)
        fill(live.api, "quiet", 10)

        with stream(live, "/queue/listen", prefetch=4, **NOISY_AND_QUIET) as messages:
            first = [next(messages) for _ in range(4)]
            assert self.processing(live) == {"noisy": 2, "quiet": 2}
            ack(live, first[0])
            next(messages)
            assert sum(self.processing(live).values()) == 4

    def processing(self, live):
        return {
            queue: live.api.get("/queue/stats", queue=queue)["processing"]
            for queue in NOISY_AND_QUIET["queue"]
        }

    def test_the_same_id_in_two_queues_is_two_messages(self, live):
        for queue in NOISY_AND_QUIET["queue"]:
            live.api.enqueue(queue, id="same", queue=queue)

        with stream(live, "/queue/listen", prefetch=2, **NOISY_AND_QUIET) as messages:
            one, other = next(messages), next(messages)
            assert {one["queue"], other["queue"]} == {"noisy", "quiet"}
            ack(live, one)
            left = self.processing(live)
            assert (left[one["queue"]], left[other["queue"]]) == (0, 1)

    def test_a_new_message_of_any_queue_is_sent_immediately(self, live):
        with stream(live, "/queue/listen", **NOISY_AND_QUIET) as messages:
            for queue in ("quiet", "noisy", "quiet"):
                live.api.enqueue(1, queue=queue)
                message = next(messages)
                assert message["queue"] == queue
                ack(live, message)

    def test_jobs_are_also_streamed_by_v1(self, live):
        fill(live.api, "noisy", 3)

        with stream(live, "/v1/claims", lease=5, **NOISY_AND_QUIET) as jobs:
            job = next(jobs)
            assert (job["queue"], job["id"], job["attempt"]) == ("noisy", "noisy-0", 1)
            outcome = {"id": job["id"], "token": job["token"], "outcome": "complete"}
            live.api.post("/v1/queues/noisy/settle", {"outcomes": [outcome]})
