"""Limits: of a tenant for its requests, and of an address for failed logins."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.service.conftest import Api, client_for

import ackline
from ackline.core.errors import ConfigError, StoreUnavailable
from ackline.core.job import QueueKey
from ackline.core.lifecycle import move
from ackline.service import Settings
from ackline.service.auth.api_keys import new_key
from ackline.service.auth.credentials import ApiKey, hash_of
from ackline.service.auth.permissions import Scope
from ackline.service.limits.errors import TooManyLoginFailures
from ackline.service.limits.rate_limit import (
    BUCKETS,
    SIZE,
    SLOTS_PER_BUCKET,
    Rate,
    RateTable,
    new_file,
)
from ackline.service.limits.tenant_limits import TenantLimits
from ackline.service.operations import bulk
from ackline.service.settings import load
from ackline.stores.sqlite import disk_space

# --- the rate ---


@given(
    some.floats(0.1, 1000),
    some.floats(1, 500),
    some.lists(some.tuples(some.floats(0, 2), some.integers(1, 300)), max_size=60),
)
def test_no_period_exceeds_the_rate_and_a_burst(per_second, burst, requests):
    rate, now, due = Rate(per_second, burst), 100.0, 0.0
    admitted: list[tuple[float, int]] = []
    for pause, cost in requests:
        now += pause
        due, wait = rate.acquire(due, now, cost)
        if not wait:
            admitted.append((now, cost))

    for index, (begin, _) in enumerate(admitted):
        for last in range(index, len(admitted)):
            window = admitted[index : last + 1]
            span = window[-1][0] - begin
            # A cost above a burst is admitted when nothing is owed, and paid for afterwards.
            large = max(cost for _, cost in window)
            most = per_second * span + max(burst, large)
            assert sum(cost for _, cost in window[:-1]) <= most + 1e-3
            if all(cost <= burst for _, cost in window):
                assert sum(cost for _, cost in window) <= per_second * span + burst + 1e-3


@given(some.floats(0.1, 1000), some.floats(1, 500), some.integers(1, 2000), some.floats(0, 1e4))
def test_a_request_after_the_wait_is_admitted(per_second, burst, cost, owed):
    rate = Rate(per_second, burst)
    due, wait = rate.acquire(100.0 + owed, 100.0, cost)

    assert wait == 0 or rate.acquire(due, 100.0 + wait + 1e-6, cost)[1] == 0


# --- the ledger ---


@pytest.fixture
def rate_table():
    rate_table = RateTable(new_file(), lambda: 100.0)
    yield rate_table
    rate_table.close()


def test_names_do_not_collide(rate_table):
    rate = Rate(1, 1)

    assert [rate_table.acquire(f"tenant {n}", rate) for n in range(500)] == [0.0] * 500
    assert all(rate_table.acquire(f"tenant {n}", rate) for n in range(500))


def test_a_full_table_drops_names_that_owe_least(rate_table):
    rate_table.acquire("much", Rate(1, 1000), 1000)
    for n in range(BUCKETS * SLOTS_PER_BUCKET * 2):
        rate_table.acquire(f"little {n}", Rate(1, 1))

    assert rate_table.wait_time("much", Rate(1, 1000)) == pytest.approx(1.0)


def _acquire_repeatedly(file: int, seconds: float, results) -> None:
    rate_table, rate = RateTable(file), Rate(200, 20)
    until, admitted = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        admitted += not rate_table.acquire("acme", rate)
    results.put(admitted)


def test_processes_share_one_rate():
    context = multiprocessing.get_context("fork")
    file, results = new_file(), context.Queue()
    competitors = [
        context.Process(target=_acquire_repeatedly, args=(file, 1.0, results)) for _ in range(3)
    ]
    began = time.monotonic()
    for one in competitors:
        one.start()
    admitted = [results.get(timeout=30) for _ in competitors]
    took = time.monotonic() - began
    for one in competitors:
        one.join()
    os.close(file)

    assert 150 <= sum(admitted) <= 20 + 200 * took + 1
    # The control: each process alone would have admitted as many as all of them together.
    assert max(admitted) < 150 + 20


def _lock_forever(file: int, ready) -> None:
    fcntl.lockf(file, fcntl.LOCK_EX, SIZE, 0)
    ready.put(None)
    time.sleep(60)


def test_a_stopped_process_with_a_lock_blocks_no_other():
    context = multiprocessing.get_context("fork")
    file, ready = new_file(), context.Queue()
    rate_table, rate = RateTable(file, lambda: 100.0), Rate(1, 1)
    answers: list[float] = []
    other = context.Process(target=_lock_forever, args=(file, ready))
    other.start()
    try:
        ready.get(timeout=30)
        acquiring = threading.Thread(
            target=lambda: answers.extend(rate_table.acquire("acme", rate) for _ in range(2)),
            daemon=True,
        )
        acquiring.start()
        acquiring.join(10)

        assert answers == [0.0, pytest.approx(1.0)]
    finally:
        other.kill()
        other.join()


def _keep_stream_slots(file: int, ready) -> None:
    rate_table = RateTable(file)
    ready.put([rate_table.acquire_slot("acme", 3), rate_table.acquire_slot("acme", 3)])
    time.sleep(60)


def test_a_process_that_dies_frees_its_stream_slots(rate_table):
    context = multiprocessing.get_context("fork")
    file, ready = new_file(), context.Queue()
    table = RateTable(file)
    other = context.Process(target=_keep_stream_slots, args=(file, ready))
    other.start()
    try:
        assert None not in ready.get(timeout=30)
        last = table.acquire_slot("acme", 3)
        assert last is not None
        assert table.acquire_slot("acme", 3) is None
        assert table.acquire_slot("other", 3) is not None
        table.release_slot(last)
        assert table.acquire_slot("acme", 3) == last
    finally:
        assert other.pid is not None
        os.kill(other.pid, signal.SIGKILL)
        other.join()

    assert table.acquire_slot("acme", 3) is not None
    assert table.acquire_slot("acme", 3) is not None
    assert table.acquire_slot("acme", 3) is None
    table.close()


# --- over HTTP ---


def key_for(tenant: str) -> tuple[str, ApiKey]:
    text, id = new_key()
    return text, ApiKey(
        id=id, hash=hash_of(text), name=tenant, tenant=tenant, scopes=frozenset(Scope)
    )


@pytest.fixture
def tenant_limits() -> TenantLimits:
    return TenantLimits()


@pytest.fixture
def tenants() -> dict[str, str]:
    """An API key of each tenant."""
    return {}


@pytest.fixture
def settings(tenant_limits, tenants) -> Settings:
    keys = {name: key_for(name) for name in ("acme", "umbrella")}
    tenants |= {name: text for name, (text, _) in keys.items()}
    return Settings(
        store="memory://",
        port=0,
        drain=0.0,
        limits=tenant_limits,
        tenants={"umbrella": TenantLimits(requests=0, jobs=0, queue_jobs=0, streams=0)},
        api_keys=tuple(key for _, key in keys.values()),
        login_failures=5,
    )


@pytest.fixture
def call(api, tenants):
    def call(method, path, status=200, tenant="acme", **options):
        headers = {"authorization": f"Bearer {tenants[tenant]}"}
        answer = api.client.request(method, f"/api{path}", headers=headers, **options)
        assert answer.status_code == status, answer.text
        return answer

    return call


def redriven(id: str) -> dict[str, Any]:
    """The transition that a client of the store API sends."""
    return {"id": id, "act": "redrive", "to": "queued", "attempts": 0}


def refused(answer, word: str) -> None:
    assert answer.json()["type"] == f"urn:ackline:problem:{word}"
    assert "nothing was done" in answer.json()["detail"]
    seconds = int(answer.headers["retry-after"])
    assert seconds >= 1
    assert answer.headers["ratelimit"].endswith(f";r=0;t={seconds}")


@pytest.mark.parametrize("tenant_limits", [TenantLimits(requests=0.1, requests_burst=3)])
def test_the_request_rate_of_a_tenant(call):
    for _ in range(3):
        call("GET", "/queue/stats")

    answer = call("GET", "/queue/stats", 429)
    refused(answer, "too-many-requests")
    assert 9 <= int(answer.headers["retry-after"]) <= 10
    for _ in range(10):
        call("GET", "/queue/stats", tenant="umbrella")


@pytest.mark.parametrize("tenant_limits", [TenantLimits(requests=0.001, requests_burst=4)])
class TestSettlingOverTheRate:
    """Claimed jobs can always be settled, or else they would run again."""

    @pytest.fixture
    def leased(self, call):
        """A claimed job, with the request rate used up."""
        call("POST", "/v1/queues/q/jobs", 201, json={"payload": 1, "id": "a"})
        call("POST", "/v1/queues/q/jobs", 201, json={"payload": 2, "id": "b"})
        (job,) = call("POST", "/v1/queues/q/claim", json={"lease": 60}).json()["jobs"]
        call("GET", "/queue/stats")
        refused(call("GET", "/queue/stats", 429), "too-many-requests")
        return {"id": job["id"], "token": job["token"]}

    def test_a_message(self, call, leased):
        message = {"queue": "q", "id": leased["id"], "receipt": leased["token"]}
        for _ in range(3):
            call("POST", "/queue/touch", json=message)
        call("POST", "/queue/ack", json=message)
        call("POST", "/queue/nack", 409, json=message)

    def test_a_job(self, call, leased):
        for _ in range(3):
            call("POST", "/v1/queues/q/extend", json={"leases": [leased]})
        outcome = {**leased, "outcome": "complete"}
        result = call("POST", "/v1/queues/q/settle", json={"outcomes": [outcome]}).json()
        assert result["results"][0]["ok"]

    def test_settling_counts_towards_the_rate(self, call):
        for _ in range(4):
            call("POST", "/v1/queues/q/extend", json={"leases": []})

        refused(call("GET", "/queue/stats", 429), "too-many-requests")

    def test_a_worker_on_the_store_api(self, call, leased):
        """It settles and claims in one request: it gets no job, and when to claim again."""
        heartbeat = {
            "id": "w",
            "host": "",
            "pid": 1,
            "started_at": 0,
            "concurrency": 1,
            "kinds": None,
            "ttl": 5,
        }
        extension = {"id": leased["id"], "token": int(leased["token"]), "seconds": 60}
        call(
            "POST",
            "/v1/store/heartbeat",
            json={"queue": "q", "heartbeat": heartbeat, "extensions": [extension]},
        )
        step = {
            "id": leased["id"],
            "act": "complete",
            "to": "completed",
            "token": extension["token"],
        }
        request = {"worker": "w", "limit": 10, "lease": 30}
        claim = {"queue": "q", "request": request}

        answer = call("POST", "/v1/store/claim", json={**claim, "transitions": [step]}).json()

        assert answer["verdicts"] == [{"applied": True, "state": "completed"}]
        assert answer["jobs"] == []
        assert answer["next_at"] - answer["now"] > 900
        call("POST", "/v1/store/apply", json={"queue": "q", "transitions": [step]})
        refused(call("POST", "/v1/store/claim", 429, json=claim), "too-many-requests")

    def test_other_acts_are_refused_over_the_rate(self, call, leased):
        call("POST", "/v1/store/apply", 429, json={"queue": "q", "transitions": [redriven("b")]})
        call("POST", "/v1/store/apply", 429, json={"queue": "q", "transitions": []})
        call("POST", "/v1/store/get", 429, json={"queue": "q", "ids": ["b"]})


@pytest.mark.parametrize("tenant_limits", [TenantLimits(jobs=0.1, jobs_burst=3)])
class TestJobs:
    def test_one_by_one(self, call):
        for _ in range(3):
            call("POST", "/queue/enqueue", json={"value": 1})
        refused(call("POST", "/queue/enqueue", 429, json={"value": 1}), "too-many-jobs")
        refused(call("POST", "/v1/queues/q/jobs", 429, json={"payload": 1}), "too-many-jobs")

        assert call("GET", "/queue/stats").json()["total"] == 3
        message = call("GET", "/queue/poll").json()["message"]
        call("POST", "/queue/ack", json={"id": message["id"]})
        call("POST", "/queue/enqueue", tenant="umbrella", json={"value": 1})

    def test_a_batch_counts_as_its_jobs(self, call):
        jobs = {"jobs": [{"payload": n} for n in range(2)]}
        call("POST", "/v1/queues/q/jobs/batch", json=jobs)
        refused(call("POST", "/v1/queues/q/jobs/batch", 429, json=jobs), "too-many-jobs")
        call("POST", "/v1/queues/q/jobs", 201, json={"payload": 1})

    def test_a_batch_larger_than_a_burst_is_paid_for_afterwards(self, call):
        jobs = {"jobs": [{"payload": n} for n in range(10)]}
        call("POST", "/v1/queues/q/jobs/batch", json=jobs)
        answer = call("POST", "/queue/enqueue", 429, json={"value": 1})
        assert int(answer.headers["retry-after"]) > 60

    def test_an_import_stops_where_it_is_refused(self, call):
        lines = b"\n".join(b'{"payload": %d}' % n for n in range(1005))
        result = call("POST", "/v1/queues/q/import", content=lines).json()

        assert (result["enqueued"], result["stopped_at"]) == (1000, 1001)
        assert result["problem"]["type"].endswith("too-many-jobs")
        assert call("GET", "/queue/stats?queue=q").json()["total"] == 1000

    def test_the_store_over_http(self, live, tenants):
        with ackline.open(live.url + "/api", token=tenants["acme"]) as queues:
            queues["q"].enqueue_many([1, 2, 3])
            with pytest.raises(StoreUnavailable, match="second"):
                queues["q"].enqueue(4)


@pytest.mark.parametrize("tenant_limits", [TenantLimits(queue_jobs=3, tenant_jobs=5)])
class TestDepth:
    @pytest.fixture(autouse=True)
    def recount_at_once(self, monkeypatch):
        """A request without capacity recounts at once."""
        monkeypatch.setattr("ackline.service.limits.queue_depth.MIN_RECOUNT_INTERVAL", 0.0)

    def fill(self, call, queue, jobs, status=201):
        for n in range(jobs):
            call("POST", f"/v1/queues/{queue}/jobs", status, json={"payload": n})

    def test_the_depth_of_a_queue_is_limited(self, call):
        self.fill(call, "a", 3)
        refused(call("POST", "/v1/queues/a/jobs", 429, json={"payload": 1}), "queue-full")
        self.fill(call, "b", 2)
        refused(call("POST", "/v1/queues/b/jobs", 429, json={"payload": 1}), "queue-full")
        call("POST", "/v1/queues/a/jobs", 201, tenant="umbrella", json={"payload": 1})

    def bury(self, call, queue, jobs=1):
        """Enqueue jobs and let them fail; returns their ids."""
        for _ in range(jobs):
            call("POST", f"/v1/queues/{queue}/jobs", 201, json={"payload": 0, "max_attempts": 1})
        leased = call("POST", f"/v1/queues/{queue}/claim", json={"limit": jobs}).json()["jobs"]
        outcomes = [{"id": one["id"], "token": one["token"], "outcome": "fail"} for one in leased]
        call("POST", f"/v1/queues/{queue}/settle", json={"outcomes": outcomes})
        return [job["id"] for job in leased]

    @pytest.mark.parametrize("way", ["v1", "messages", "bulk", "all", "store"])
    def test_a_redrive_needs_capacity(self, call, runtime, way):
        ids = self.bury(call, "a", 2)
        self.fill(call, "a", 2)
        act: dict[str, tuple[str, Any]] = {
            "v1": (f"/v1/queues/a/jobs/{ids[1]}/redrive", {}),
            "messages": (f"/queue/dlq/{ids[1]}/requeue?queue=a", None),
            "bulk": ("/v1/queues/a/bulk", {"action": "redrive", "filter": {"ids": ids[1:]}}),
            "all": ("/v1/queues/a/bulk", {"action": "redrive", "filter": {}}),
            "store": (
                "/v1/store/apply",
                {"queue": "a", "transitions": [redriven(ids[1])]},
            ),
        }
        if way != "all":  # there, both of them are one too many
            call("POST", f"/v1/queues/a/jobs/{ids[0]}/redrive", json={})
        path, body = act[way]

        refused(call("POST", path, 429, **({} if body is None else {"json": body})), "queue-full")

        assert call("GET", f"/v1/queues/a/jobs/{ids[1]}").json()["state"] == "failed"

    def test_an_operation_in_progress_reserves_no_capacity(self, call, runtime):
        """Otherwise jobs that have moved would count twice."""
        self.fill(call, "a", 3)

        ids = [job["id"] for job in call("GET", "/v1/queues/a/jobs").json()["jobs"]]
        target = QueueKey("acme", "b")

        runtime.limits.require_capacity(QueueKey("acme", "a"), [move(id, target) for id in ids])

        self.fill(call, "b", 2)

    def test_a_bulk_operation_stops_when_the_queue_is_full(self, call, monkeypatch):
        monkeypatch.setattr(bulk, "PAGE", 2)
        self.bury(call, "a", 3)
        self.fill(call, "a", 1)
        body = {"action": "redrive", "filter": {}}

        done = call("POST", "/v1/queues/a/bulk", json=body).json()
        assert (done["count"], done["cursor"] is None) == (2, False)
        body["cursor"] = done["cursor"]
        refused(call("POST", "/v1/queues/a/bulk", 429, json=body), "queue-full")
        assert call("GET", "/v1/queues/a").json()["counts"]["failed"] == 1

    @pytest.mark.parametrize("way", ["v1", "bulk", "store"])
    def test_a_move_needs_capacity_in_the_target(self, call, way):
        self.fill(call, "a", 3)
        self.fill(call, "b", 2)  # all that the tenant may have
        first, second = [job["id"] for job in call("GET", "/v1/queues/b/jobs").json()["jobs"]]
        call("POST", f"/v1/queues/b/jobs/{first}/move", json={"to": "c"})
        step = {"id": second, "act": "move", "target": {"tenant": "acme", "name": "a"}}
        path, body = {
            "v1": (f"/v1/queues/b/jobs/{second}/move", {"to": "a"}),
            "bulk": ("/v1/queues/b/bulk", {"action": "move", "to": "a", "filter": {}}),
            "store": ("/v1/store/apply", {"queue": "b", "transitions": [step]}),
        }[way]

        refused(call("POST", path, 429, json=body), "queue-full")

        assert call("GET", f"/v1/queues/b/jobs/{second}").json()["state"] == "queued"

    def test_moved_finished_jobs_need_no_capacity(self, call):
        [ended] = self.bury(call, "b")
        self.fill(call, "a", 3)
        call("POST", f"/v1/queues/b/jobs/{ended}/move", json={"to": "a"})

    def test_a_renamed_queue_keeps_its_capacity(self, call):
        self.fill(call, "a", 3)
        call("POST", "/v1/queues/a/rename", json={"to": "b"})
        self.fill(call, "a", 1)

        merge = {"to": "b", "merge": True}
        refused(call("POST", "/v1/queues/a/rename", 429, json=merge), "queue-full")

    def test_completed_jobs_free_capacity(self, call):
        self.fill(call, "a", 3)
        call("POST", "/v1/queues/a/jobs", 429, json={"payload": 1})
        (job,) = call("POST", "/v1/queues/a/claim", json={}).json()["jobs"]
        outcome = {"id": job["id"], "token": job["token"], "outcome": "complete"}
        call("POST", "/v1/queues/a/settle", json={"outcomes": [outcome]})

        self.fill(call, "a", 1)
        call("POST", "/v1/queues/a/jobs", 429, json={"payload": 1})

    def test_duplicates_need_no_capacity(self, call):
        jobs = [{"payload": n, "id": f"j{n}"} for n in range(3)]
        call("POST", "/v1/queues/a/jobs/batch", json={"jobs": jobs})

        again = call("POST", "/v1/queues/a/jobs", 200, json=jobs[0]).json()
        assert (again["accepted"], again["state"]) == (False, "queued")
        call("POST", "/v1/queues/a/jobs/batch", json={"jobs": jobs})
        call("POST", "/v1/queues/a/jobs/batch", 429, json={"jobs": [*jobs, {"payload": 1}]})

    def test_a_batch_is_enqueued_whole_or_not_at_all(self, call):
        batch = {"jobs": [{"payload": n} for n in range(4)]}
        call("POST", "/v1/queues/a/jobs/batch", 429, json=batch)
        self.fill(call, "a", 3)

    def test_concurrent_enqueues_are_counted_before_they_are_stored(self, live, tenants):
        headers = {"authorization": f"Bearer {tenants['acme']}"}

        def enqueue(n: int) -> int:
            url = f"{live.url}/api/v1/queues/a/jobs"
            return httpx.post(url, json={"payload": n}, headers=headers).status_code

        with ThreadPoolExecutor(10) as threads:
            answers = list(threads.map(enqueue, range(30)))
        assert sorted(answers) == [201] * 3 + [429] * 27


@pytest.mark.parametrize("tenant_limits", [TenantLimits(streams=2)])
def test_streams_of_a_tenant_are_limited(live, tenants):
    def listen(tenant="acme"):
        headers = {"authorization": f"Bearer {tenants[tenant]}"}
        request = live.client.build_request("GET", "/api/queue/listen", headers=headers)
        return live.client.send(request, stream=True)

    first, second, third, other = listen(), listen(), listen(), listen("umbrella")
    assert [one.status_code for one in (first, second, third, other)] == [200, 200, 429, 200]
    third.read()
    refused(third, "too-many-streams")
    first.close()
    until = time.monotonic() + 10
    while (again := listen()).status_code == 429:
        again.close()
        assert time.monotonic() < until
    for one in (second, other, again):
        one.close()


@pytest.mark.parametrize("tenant_limits", [TenantLimits(streams=1)])
def test_a_long_poll_counts_as_a_stream(live, tenants):
    headers = {"authorization": f"Bearer {tenants['acme']}"}
    request = partial(live.client.request, headers=headers)
    request("POST", "/api/v1/queues/q/jobs", json={"payload": 1, "id": "a"})
    with live.client.stream("GET", "/api/queue/listen", headers=headers):
        refused(request("GET", "/api/queue/poll?wait=1"), "too-many-streams")
        refused(request("POST", "/api/v1/queues/e/claim", json={"wait": 1}), "too-many-streams")
        refused(request("GET", "/api/v1/queues/q/jobs/a/result?wait=1"), "too-many-streams")
        assert request("GET", "/api/queue/poll").status_code == 200


def many(count: int) -> list[str]:
    return [f"random {n}" for n in range(count)]


def listening(live, headers, names):
    """A notification stream of the store API."""
    body = {"queues": names, "topic": "ready"}
    path = "/api/v1/store/listen"
    request = live.client.build_request("POST", path, headers=headers, json=body)
    return live.client.send(request, stream=True)


@pytest.mark.parametrize("tenant_limits", [TenantLimits(waiting_queues=100)])
def test_waiting_queues_of_a_tenant_are_limited(live, tenants):
    acme, umbrella = ({"authorization": f"Bearer {tenants[t]}"} for t in ("acme", "umbrella"))
    request = partial(live.client.request, headers=acme)
    first = listening(live, acme, many(60))
    assert first.status_code == 200
    refused_one = listening(live, acme, many(60))
    refused_one.read()
    refused(refused_one, "too-many-waiting-queues")
    query = {"queue": many(60), "wait": 1}
    refused(request("GET", "/api/queue/poll", params=query), "too-many-waiting-queues")
    refused(
        request("GET", "/api/queue/listen", params={"queue": many(60)}), "too-many-waiting-queues"
    )
    refused(request("GET", "/api/v1/claims", params={"queue": many(60)}), "too-many-waiting-queues")
    claim = {"queues": many(60), "wait": 1}
    refused(request("POST", "/api/v1/claims", json=claim), "too-many-waiting-queues")
    # What does not wait costs nothing, and others have their own.
    assert request("POST", "/api/v1/claims", json={"queues": many(60)}).status_code == 200
    assert request("GET", "/api/queue/poll?wait=0.01").status_code == 200
    other = listening(live, umbrella, many(60))
    assert other.status_code == 200
    first.close()
    until = time.monotonic() + 10
    while (again := listening(live, acme, many(60))).status_code == 429:
        again.close()
        assert time.monotonic() < until
    other.close()
    again.close()


def test_kinds_of_a_waiting_request_are_limited(live, tenants):
    acme = {"authorization": f"Bearer {tenants['acme']}"}
    claim = {"kinds": many(1001), "wait": 1}
    request = partial(live.client.post, headers=acme)
    assert request("/api/v1/queues/q/claim", json=claim).status_code == 400
    call = {"queues": ["q"], "topic": "ready", "kinds": many(1001)}
    assert request("/api/v1/store/listen", json=call).status_code == 422


def test_too_many_queues_in_one_request_block_no_other_request(live, tenants):
    acme = {"authorization": f"Bearer {tenants['acme']}"}
    before = threading.active_count()
    for _ in range(2):
        answer = listening(live, acme, many(9990))
        assert (answer.status_code, "1,000" in answer.read().decode()) == (422, True)
    streams = [listening(live, acme, many(1000)) for _ in range(10)]
    assert {one.status_code for one in streams} == {200}
    request = partial(live.client.request, headers=acme)

    with ThreadPoolExecutor(1) as thread:
        polled = thread.submit(request, "GET", "/api/queue/poll?queue=mine&wait=5")
        time.sleep(0.1)
        request("POST", "/api/queue/enqueue?queue=mine", json={"value": 1})
        assert polled.result().json()["message"]["value"] == 1

    assert threading.active_count() - before < 20
    assert [info.key.name for info in live.runtime.store.describe("acme")] == ["mine"]
    for one in streams:
        one.close()


class TestFailures:
    def test_login_failures_of_an_address_are_limited(self, api, call):
        def log_in(header):
            return api.client.get("/api/queue/stats", headers={"authorization": header})

        wrong = "Bearer ack_0123456789abcdef_wrong"
        assert [log_in(wrong).status_code for _ in range(5)] == [401] * 5
        refused(log_in(wrong), "too-many-login-failures")
        assert log_in("Bearer a.b.c").status_code == 429
        # A known key is not a guess, although it comes from the same address.
        call("GET", "/queue/stats")
        assert api.client.get("/livez").status_code == 200

    def test_a_request_without_credentials_is_no_failure(self, api):
        for _ in range(10):
            assert api.client.get("/api/queue/stats").status_code == 401

    @pytest.mark.parametrize(
        ("one", "other", "same"),
        [
            ("10.0.0.1", "10.0.0.2", False),
            ("2001:db8::1", "2001:db8::ffff:1", True),
            ("2001:db8::1", "2001:db8:0:1::1", False),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
            ("testclient", "testclient", True),
        ],
    )
    def test_an_ipv6_network_is_one_address(self, api, runtime, one, other, same):
        for _ in range(10):
            runtime.limits.record_login_failure(one)
        with pytest.raises(TooManyLoginFailures):
            runtime.limits.require_not_blocked(one)

        if same:
            with pytest.raises(TooManyLoginFailures):
                runtime.limits.require_not_blocked(other)
        else:
            runtime.limits.require_not_blocked(other)


# --- settings ---


def test_limits_are_read_from_the_file(tmp_path):
    file = tmp_path / "service.toml"
    file.write_text(
        "[limits]\nrequests = 100\njobs = 1000\n[tenants.acme]\njobs = 0\nstreams = 5\n"
    )

    settings = load(file, {})

    acme = settings.tenants["acme"].with_defaults(settings.limits)
    assert (acme.requests, acme.jobs, acme.streams) == (100, 0, 5)
    with pytest.raises(ConfigError, match="file"):
        load(file, {"ACKLINE_LIMITS": "1"})


@pytest.mark.parametrize("text", ["requests = -1", "colour = 1", "streams = 1.5"])
def test_an_invalid_limit_is_refused(tmp_path, text):
    file = tmp_path / "service.toml"
    file.write_text(f"[limits]\n{text}\n")

    with pytest.raises(ConfigError, match=r"limits|colour"):
        load(file, {})


def test_a_full_store_answers_507_to_enqueues_only(call):
    """A full queue or disk is 507; a limit of the tenant is 429."""
    call("PATCH", "/v1/queues/q", json={"max_jobs": 1})
    call("POST", "/v1/queues/q/jobs", 201, json={"payload": 1, "id": "one"})
    answer = call("POST", "/v1/queues/q/jobs", 507, json={"payload": 2})
    assert answer.json()["type"].endswith("store-full")

    assert call("POST", "/v1/queues/q/jobs", json={"payload": 1, "id": "one"}).json()["id"] == "one"
    (job,) = call("POST", "/v1/queues/q/claim", json={}).json()["jobs"]
    outcome = {"id": job["id"], "token": job["token"], "outcome": "complete"}
    call("POST", "/v1/queues/q/settle", json={"outcomes": [outcome]})
    call("POST", "/v1/queues/q/jobs", 201, json={"payload": 2})


def test_a_full_disk_is_reported_and_a_purge_frees_it(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_space, "CHECK_INTERVAL", 0.0)
    with client_for(Settings(store=f"sqlite:///{tmp_path}/jobs.db", drain=0.0)) as client:
        api = Api(client, "/api")
        for _ in range(40):
            api.enqueue("x" * 100_000)
        left = disk_space.DISK_RESERVE - 2 * 1_048_576
        monkeypatch.setattr(disk_space, "free_on_disk", lambda _path: left)

        assert api.post("/queue/enqueue", {"value": 1}, 507)["type"].endswith("store-full")
        assert api.put("/keys/mine", {"value": 1}, 507)["type"].endswith("store-full")
        result = client.get("/readyz")
        assert (result.status_code, result.json()["checks"]["space"]["ok"]) == (200, False)
        message = api.get("/queue/poll")["message"]
        api.post("/queue/ack", {"id": message["id"]})
        api.post("/v1/queues/default/purge")
        api.enqueue(1)
