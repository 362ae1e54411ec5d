"""What a process remembers of in-flight jobs: enough to settle them, but no payloads."""

from __future__ import annotations

import contextlib
import gc
import socket
import tracemalloc

import pytest
from tests.waiting import until

from ackline.core.job import QueueKey
from ackline.service import Settings

JOBS, SIZE = 40, 400_000


@pytest.fixture
def settings(tmp_path) -> Settings:
    # On disk: the memory store itself keeps the payloads in this process.
    return Settings(store=f"sqlite:///{tmp_path}/jobs.db", drain=0.0)


@pytest.fixture
def traced():
    tracemalloc.start()
    yield lambda: (gc.collect(), tracemalloc.get_traced_memory()[0])[1]
    tracemalloc.stop()


def fill(live):
    for n in range(JOBS):
        job = {"payload": "x" * SIZE, "id": f"j{n}", "headers": {"note": "y" * 50_000}}
        live.api.post("/v1/queues/q/jobs", job, 201)


def connect(live, path):
    host, port = live.url.removeprefix("http://").split(":")
    link = socket.create_connection((host, int(port)), timeout=10)
    link.sendall(f"GET /api{path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    return link


def test_a_stream_that_has_sent_its_jobs_keeps_no_payloads(live, traced):
    fill(live)
    before = traced()
    with connect(live, f"/v1/claims?queue=q&prefetch={JOBS}") as link:
        received = 0
        while received < JOBS * SIZE:
            received += len(link.recv(1 << 16))

        def keeps_little():
            # What is still on its way has to be read: the service cannot send it otherwise.
            link.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while link.recv(1 << 16):
                    pass
            return traced() - before < JOBS * SIZE / 8

        until(keeps_little)

        jobs = live.runtime.store.get(QueueKey("default", "q"), [f"j{n}" for n in range(JOBS)])
        outcomes = [{"id": job.id, "token": str(job.token), "outcome": "complete"} for job in jobs]
        settled = live.api.post("/v1/queues/q/settle", {"outcomes": outcomes})["results"]
        assert [one["ok"] for one in settled] == [True] * JOBS


def test_claims_keep_no_payloads_and_settle_as_ever(live, traced):
    fill(live)
    before, jobs = traced(), []
    while claimed := live.api.post("/v1/queues/q/claim", {"limit": JOBS})["jobs"]:
        assert len(claimed) < JOBS / 2  # no answer is larger than its bytes
        jobs += [(job["id"], job["token"]) for job in claimed]
        del claimed
    assert len(jobs) == JOBS
    assert traced() - before < JOBS * SIZE / 8

    for outcome in ("fail", "complete"):
        id, token = jobs.pop()
        body = {"outcomes": [{"id": id, "token": token, "outcome": outcome}]}
        assert live.api.post("/v1/queues/q/settle", body)["results"][0]["ok"]
