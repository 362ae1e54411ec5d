"""Servers are killed while clients use them: answered requests are never lost."""

from __future__ import annotations

import itertools
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import connect_sse
from tests.harness.faults import Evidence, Report, Rule, check
from tests.harness.faults.checks.checker import DRAIN
from tests.harness.faults.checks.evidence import ALL_WORKERS
from tests.harness.faults.checks.history import History, Phase, Step, StepType, read_all
from tests.service.kill_points import ANSWERED_EARLY, CLAIMED
from tests.waiting import until

import ackline
from ackline.core.events import Act, Event
from ackline.core.job import LIVE, QueueKey
from ackline.stores.contract import Filter

QUEUE = QueueKey("default", "work")
LEASE = 1.0
ATTEMPTS = 30
SERVERS_OWN = (Act.EXPIRE, Act.RELEASE)
"""Acts without a client's request, only known from the journal."""


class Client:
    """Clients in threads, which retry until they are answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.urls: list[str] = []
        self.stopping = threading.Event()
        self.answered = threading.Semaphore(0)
        """Released by each answer to an enqueue."""
        self.delivered = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._requests = itertools.count()

    def start(self, work: Callable[[History, httpx.Client], None], name: str) -> None:
        def run() -> None:
            history = History(self.folder, name)
            with httpx.Client(timeout=20) as client:
                work(history, client)
            history.close()

        self._threads.append(threading.Thread(target=run, name=name))
        self._threads[-1].start()

    def join(self) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _post(self, client: httpx.Client, path: str, body: Any) -> Any:
        """Retry until a server answers; None if none does before the end."""
        while self.urls:
            url = self.urls[next(self._requests) % len(self.urls)]
            try:
                answer = client.post(f"{url}{path}", json=body)
            except httpx.TransportError:
                time.sleep(0.02)
                continue
            assert answer.status_code in (200, 201), answer.text
            return answer.json()
        return None

    def produce(self, prefix: str, count: int) -> Callable[[History, httpx.Client], None]:
        def work(history: History, client: httpx.Client) -> None:
            for n in range(count):
                id = f"{prefix}-{n}"
                history.write(Step(type=StepType.ENQUEUE, phase=Phase.INVOKE, id=id))
                body = {"id": id, "payload": n, "max_attempts": ATTEMPTS}
                if self._post(client, "/v1/queues/work/jobs", body) is None:
                    return
                history.write(Step(type=StepType.ENQUEUE, phase=Phase.OK, id=id))
                self.answered.release()

        return work

    def claim_and_settle(self, history: History, client: httpx.Client) -> None:
        while not self.stopping.is_set():
            body = {"limit": 3, "wait": 0.2, "lease": LEASE, "worker": history.process}
            found = self._post(client, "/v1/queues/work/claim", body)
            for job in found["jobs"] if found else ():
                self._begin(history, job["id"], job["token"], job["attempt"])
                self._settle(history, client, job["id"], job["token"])

    def listen(self, history: History, client: httpx.Client) -> None:
        while not self.stopping.is_set():
            try:
                for message in self._messages(client):
                    self._begin(history, message["id"], message["receipt"], message["attempts"])
                    self._settle(history, client, message["id"], message["receipt"])
            except httpx.TransportError:
                time.sleep(0.02)

    def _messages(self, client: httpx.Client) -> Iterator[dict[str, Any]]:
        url = f"{self.urls[0]}/queue/listen?queue=work&prefetch=5"
        with connect_sse(client, "GET", url, timeout=1) as source:
            for event in source.iter_sse():
                if self.stopping.is_set():
                    return
                if event.event == "message":
                    yield json.loads(event.data)

    def _begin(self, history: History, id: str, token: str, attempt: int) -> None:
        history.write(
            Step(
                type=StepType.DELIVERY,
                phase=Phase.INVOKE,
                id=id,
                token=int(token),
                attempt=attempt,
                worker=history.process,
            )
        )
        self.delivered.release()
        history.write(Step(type=StepType.DELIVERY, phase=Phase.OK, id=id, token=int(token)))

    def _settle(self, history: History, client: httpx.Client, id: str, token: str) -> None:
        step = Step(
            type=StepType.SETTLE, phase=Phase.INVOKE, id=id, token=int(token), act=Act.COMPLETE
        )
        history.write(step)
        body = {"outcomes": [{"id": id, "token": token, "outcome": "complete"}]}
        found = self._post(client, "/v1/queues/work/settle", body)
        if found is not None:
            phase = Phase.OK if found["results"][0]["ok"] else Phase.FAIL
            history.write(Step(**{**_fields(step), "phase": phase}))


def _fields(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in step.__struct_fields__}


class Drill:
    """Servers on one file, clients, and the checker's result."""

    def __init__(self, serve: Callable[..., Any], root: Path) -> None:
        self._serve = serve
        self._folder = root
        folder = root / "histories"
        folder.mkdir()
        self.client = Client(folder)
        self.history = History(folder, "drill")
        self._faults = itertools.count()

    def server(self, **options: Any) -> Any:
        process = self._serve(
            "--store", f"sqlite:///{self._folder}/jobs.db", ACKLINE_LEASE=str(LEASE), **options
        )
        self.client.urls.append(process.url)
        return process

    def kill(self, process: Any, wait: bool = False) -> None:
        """Kill a server, or wait until it has killed itself; its clients retry elsewhere."""
        id = f"kill-{next(self._faults)}"
        self._record_fault(id, Phase.INVOKE)
        if wait:
            process.process.wait(30)
        process.end(signal.SIGKILL)
        self.client.urls = [url for url in self.client.urls if url != process.url]
        self._record_fault(id, Phase.OK)

    def _record_fault(self, id: str, phase: Phase) -> None:
        self.history.write(
            Step(type=StepType.FAULT, id=id, act="kill", worker=ALL_WORKERS, phase=phase)
        )

    def report(self, jobs: int) -> Report:
        """Process all jobs, and check what is left."""
        with ackline.open(f"sqlite:///{self._folder}/jobs.db") as queues:
            store = queues.store
            until(lambda: self._done(store, jobs), 60.0)
            self.client.join()
            self.history.write(Step(type=StepType.PROCESS, phase=Phase.OK, act=DRAIN))
            self.history.close()
            events = _all_events(store)
            records = {job.id: job for job in store.page(QUEUE, Filter(), None, 10_000).jobs}
        own = [_server_step(event) for event in events if event.act in SERVERS_OWN]
        steps = [*read_all(self.client.folder), *own]
        return check(Evidence(steps=steps, events=events, records=records))

    def _done(self, store: Any, jobs: int) -> bool:
        for info in store.describe("default", "work"):
            live = any(info.counts[state] for state in LIVE)
            return sum(info.counts.values()) >= jobs and not live
        return not jobs


def _server_step(event: Event) -> Step:
    return Step(
        type=StepType.SETTLE,
        phase=Phase.OK,
        at=event.at,
        id=event.id,
        act=event.act,
        token=event.token or 0,
    )


def _all_events(store: Any) -> list[Event]:
    found: list[Event] = []
    while page := store.events(QUEUE, found[-1].cursor if found else None, 1000):
        found += page
    return found


@pytest.fixture
def drill(serve, tmp_path):
    return Drill(serve, tmp_path)


def wait_for(signals: threading.Semaphore, count: int) -> None:
    for _ in range(count):
        assert signals.acquire(timeout=30)


@pytest.mark.slow
def test_after_the_answer_to_an_enqueue(drill):
    """Also part of the last case."""
    first = drill.server()
    client = drill.client
    client.start(client.produce("a", 60), "producer")
    wait_for(client.answered, 20)
    drill.server()
    drill.kill(first)
    wait_for(client.answered, 40)
    client.start(client.claim_and_settle, "consumer")

    report = drill.report(60)
    assert report.ok, report
    assert report.figures["enqueues answered ok"] == 60


def test_control_a_server_that_answers_too_early_loses_jobs(drill):
    """Control: the checker notices lost jobs."""
    first = drill.server(kill_point=ANSWERED_EARLY)
    client = drill.client
    client.start(client.produce("a", 20), "producer")
    wait_for(client.answered, 20)
    drill.kill(first)

    report = drill.report(0)
    assert Rule.LOST in {violation.rule for violation in report.violations}


def test_between_a_claim_and_its_reply(drill):
    killed = drill.server(kill_point=CLAIMED)
    client = drill.client
    client.start(client.produce("a", 30), "producer")
    wait_for(client.answered, 30)
    client.start(client.claim_and_settle, "consumer")
    drill.kill(killed, wait=True)
    drill.server()

    report = drill.report(30)
    assert report.ok, report
    assert report.figures["leases expired (extra deliveries)"] >= 1


def test_in_the_middle_of_a_stream(drill):
    first = drill.server()
    client = drill.client
    client.start(client.produce("a", 80), "producer")
    client.start(client.listen, "listener")
    wait_for(client.delivered, 20)
    drill.server()
    drill.kill(first)
    wait_for(client.delivered, 1)

    report = drill.report(80)
    assert report.ok, report
    assert report.figures["jobs completed at the end"] == 80


def test_one_of_two_servers_of_one_store(drill):
    """Killed between responses to enqueues, claims and acknowledgements: all of them are kept."""
    drill.server()
    other = drill.server()
    client = drill.client
    for name in "ab":
        client.start(client.produce(name, 50), f"producer-{name}")
        client.start(client.claim_and_settle, f"consumer-{name}")
    wait_for(client.delivered, 20)
    drill.kill(other)

    report = drill.report(100)
    assert report.ok, report
    assert report.figures["enqueues answered ok"] == 100
    assert report.figures["jobs completed at the end"] == 100
