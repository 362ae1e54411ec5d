"""A queue of many large jobs is listed, searched, claimed and streamed in little memory.

`ACKLINE_GIGABYTES` says how much the slow test has; the store is SQLite, in the place that pytest
gives to temporary files, and other stores by `ACKLINE_GIGABYTES_STORE`.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from httpx_sse import connect_sse

from ackline.queue import NewJob
from ackline.queues import Queues
from ackline.stores.registry import store_from_url

MEGABYTE = 1024 * 1024
PAYLOAD = 1_000_000
GROWTH = 300 * MEGABYTE
CLIENTS = 4


class Memory:
    """The peak memory of a process since the first call."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.before = self.most = self._now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def growth(self) -> int:
        return self.most - self.before

    def _now(self) -> int:
        for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"process {self._pid} has ended")

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.most = max(self.most, self._now())


def fill(url: str, jobs: int) -> None:
    """Half of the jobs waiting, half in the DLQ, each with a different payload."""
    store = store_from_url(url)
    store.open()
    try:
        for name in ("waiting", "dead"):
            queue = Queues(store, "default").queue(name, max_payload=2 * PAYLOAD)
            for start in range(0, jobs // 2, 8):
                few = range(start, min(start + 8, jobs // 2))
                queue.enqueue_many(
                    [NewJob(_payload(n), id=f"{name}-{n}", max_attempts=1) for n in few]
                )
                if name == "dead":
                    for job in queue.claim(8):
                        queue.fail(job, f"no order {job.id!r}")
    finally:
        store.close()


def _payload(number: int) -> dict[str, str]:
    return {"number": f"n{number:06}", "text": "x" * PAYLOAD}


@contextlib.contextmanager
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{url}/v1", timeout=300) as one:
        yield one


def list_all(url: str, queue: str, summary: bool) -> int:
    """All jobs, page by page; returns how many."""
    count, cursor = 0, None
    with client(url) as api:
        while True:
            params = {"limit": 1000, "summary": summary, **({"cursor": cursor} if cursor else {})}
            answer = api.get(f"/queues/{queue}/jobs", params=params)
            document = answer.raise_for_status().json()
            count += len(document["summaries" if summary else "jobs"])
            cursor = document["cursor"]
            if cursor is None:
                return count


def export_all(url: str) -> int:
    """The bytes of an export."""
    with client(url) as api, api.stream("GET", "/queues/dead/export") as answer:
        return sum(map(len, answer.iter_bytes()))


def search(url: str) -> None:
    with client(url) as api:
        for text in ("n000003", "dead-1", "default", "nowhere"):
            assert api.get("/search", params={"text": text}).status_code == 200
        groups = api.get("/queues/dead/dlq/groups").json()["groups"]
        assert sum(group["count"] for group in groups) > 0


def claim_all(url: str, jobs: int) -> int:
    """Claim as many as the service returns, and complete them; returns how many."""
    done = 0
    with client(url) as api:
        while done < jobs:
            claimed = api.post("/queues/waiting/claim", json={"limit": 1000, "wait": 2}).json()
            found = claimed["jobs"]
            if not found:
                break
            outcomes = [
                {"id": job["id"], "token": job["token"], "outcome": "complete"} for job in found
            ]
            api.post("/queues/waiting/settle", json={"outcomes": outcomes}).raise_for_status()
            done += len(found)
    return done


def stream_all(url: str, jobs: int, done: list[str]) -> None:
    """Take jobs from a stream until all streams together have had all of them."""
    with client(url) as api, contextlib.suppress(httpx.HTTPError):  # the service has ended
        where = f"{url}/v1/claims?queue=waiting&prefetch=100"
        with httpx.Client(timeout=300) as link, connect_sse(link, "GET", where) as source:
            for event in source.iter_sse():
                if event.event == "job":
                    job = json.loads(event.data)
                    outcome = {"id": job["id"], "token": job["token"], "outcome": "complete"}
                    api.post("/queues/waiting/settle", json={"outcomes": [outcome]})
                    done.append(job["id"])
                if len(done) >= jobs:
                    return


def together(work: list[threading.Thread]) -> None:
    for thread in work:
        thread.start()
    for thread in work:
        thread.join(3600)
        assert not thread.is_alive()


def run(serve, url: str, jobs: int) -> dict[str, int]:
    """Everything through one service process; returns its growth in MB by act."""
    fill(url, jobs)
    service = serve("--store", url, ACKLINE_PING_EVERY="1")
    half, figures = jobs // 2, dict[str, int]()
    with Memory(service.process.pid) as memory:

        def record(act: str, began: float) -> None:
            figures[act] = round(memory.growth / MEGABYTE)
            print(f"{act}: {figures[act]} MB more, {time.monotonic() - began:.0f} s", flush=True)

        began = time.monotonic()
        counts = list[int]()
        together(
            [
                threading.Thread(
                    target=lambda *which: counts.append(list_all(service.url, *which)), args=which
                )
                for which in (("waiting", False), ("dead", False), ("dead", True))
            ]
        )
        assert counts == [half] * 3
        record("list", began)

        began = time.monotonic()
        together([threading.Thread(target=search, args=[service.url]) for _ in range(CLIENTS)])
        record("search", began)

        began = time.monotonic()
        assert export_all(service.url) > half * PAYLOAD
        record("export", began)

        began = time.monotonic()
        claimed = list[int]()
        together(
            [
                threading.Thread(
                    target=lambda: claimed.append(claim_all(service.url, half // 2 // CLIENTS))
                )
                for _ in range(CLIENTS)
            ]
        )
        assert sum(claimed) >= half // 2 // CLIENTS * CLIENTS
        record("claim", began)

        began = time.monotonic()
        done, left = list[str](), half - sum(claimed)
        workers = [
            threading.Thread(target=stream_all, args=[service.url, left, done], daemon=True)
            for _ in range(CLIENTS)
        ]
        for worker in workers:
            worker.start()
        until = time.monotonic() + 3600
        while len(done) < left and time.monotonic() < until:
            time.sleep(0.05)
        assert len(set(done)) == len(done) == left
        record("stream", began)
    return figures


@pytest.mark.ci
def test_a_tenth_of_a_gigabyte_costs_less_than_itself(serve, tmp_path):
    figures = run(serve, f"sqlite:///{tmp_path}/jobs.db?durability=normal", 160)

    assert max(figures.values()) < 160


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_gigabytes_are_handled_in_300_mb(serve, tmp_path):
    gigabytes = float(os.environ.get("ACKLINE_GIGABYTES", "4"))
    url = os.environ.get(
        "ACKLINE_GIGABYTES_STORE", f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    )
    figures = run(serve, url, int(gigabytes * 1000))

    assert max(figures.values()) * MEGABYTE < GROWTH
