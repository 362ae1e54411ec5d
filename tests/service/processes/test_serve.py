"""`ackline serve` as a process, called by curl and by an event source."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest
from httpx_sse import connect_sse
from tests.service.conftest import Process, application
from tests.waiting import until

import ackline
from ackline.core.job import State
from ackline.service import Settings
from ackline.service.server import Server, bind

CURL = shutil.which("curl")
BASE = "/keyval/api"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A process shared by the tests that do not change it."""
    process = Process(tmp_path_factory.mktemp("running"), "--base-path", BASE)
    yield process
    process.end(signal.SIGKILL)


@pytest.mark.skipif(CURL is None, reason="there is no curl on this machine")
class TestCurl:
    """The routes as called from a shell with curl."""

    @pytest.fixture
    def curl(self, running):
        url = running.url

        def call(path, *arguments, body=None):
            command = ["curl", "--silent", "--show-error", *arguments, url + path]
            if body is not None:
                command += ["-H", "Content-Type: application/json", "-d", body]
            return subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=30
            ).stdout

        return call

    def test_the_life_of_a_message(self, curl):
        # given: messages of each sort
        plain = json.loads(
            curl("/queue/enqueue", "-X", "POST", body='{"value": {"task": "greet", "to": "ann"}}')
        )
        assert plain.keys() == {"ok", "id"}
        assert plain["ok"] is True
        curl(
            "/queue/enqueue", "-X", "POST",
            body='{\n  "value": {"task": "remind"},\n  "options": {"delay": 60000}\n}',
        )  # fmt: skip
        lost = json.loads(
            curl(
                "/queue/enqueue", "-X", "POST",
                body='{"value": {"task": "pay", "order": "7", "amount": 9.99}, "options": '
                '{"backoffSchedule": [0], "priority": 9, '
                '"keysIfUndelivered": [["lost-payments", "7"], ["alerts", "payment", "7"]]}}',
            )
        )["id"]  # fmt: skip

        # when: one is rejected, the other is acknowledged
        for attempt in (1, 2):
            message = json.loads(curl("/queue/poll?wait=10"))["message"]
            assert (message["id"], message["attempts"]) == (lost, attempt)
            failed = json.dumps({"id": lost, "error": "declined"})
            assert json.loads(curl("/queue/nack", "-X", "POST", body=failed)) == {"ok": True}
        streamed = curl("/queue/listen", "-N", "--max-time", "1")
        assert streamed.startswith(f"event: message\nid: {plain['id']}\ndata: {{")
        message = json.loads(curl("/queue/poll?wait=10"))["message"]
        assert (message["value"], message["attempts"]) == ({"task": "greet", "to": "ann"}, 2)
        curl("/queue/ack", "-X", "POST", body=json.dumps({"id": plain["id"]}))

        # then
        counts = {"pending": 1, "processing": 0, "dlq": 1, "total": 2}
        assert json.loads(curl("/queue/stats")) == counts
        assert json.loads(curl("/queue/poll")) == {"message": None}
        (letter,) = json.loads(curl("/queue/dlq?limit=50&offset=0"))
        assert (letter["id"], letter["attempts"]) == (lost, 2)
        assert letter["errorMessage"] == "declined"
        assert json.loads(curl(f"/queue/dlq/{lost}"))["originalId"] == lost
        (key,) = json.loads(curl("/keys?prefix=lost-payments"))
        assert key["value"] == {"task": "pay", "order": "7", "amount": 9.99}
        requeued = json.loads(curl(f"/queue/dlq/{lost}/requeue", "-X", "POST"))
        assert requeued == {"ok": True, "newId": lost}
        assert json.loads(curl("/queue/dlq", "-X", "DELETE")) == {"deletedCount": 0}
        assert json.loads(curl(f"/queue/dlq/{lost}", "-X", "DELETE"))["status"] == 404


def test_manifest_yaml_in_the_working_directory_is_read(tmp_path, serve):
    (tmp_path / "manifest.yaml").write_text("queue:\n  lockDuration: 45000\n")
    service = serve()
    with httpx.Client(timeout=10, base_url=service.url) as client:
        id = client.post("/queue/enqueue", json={"value": 1}).json()["id"]
        client.get("/queue/poll")
        job = client.get(f"/v1/queues/default/jobs/{id}").json()

    assert job["deadline"] - job["started_at"] == pytest.approx(45)


def test_an_invalid_manifest_is_refused_at_start(tmp_path):
    (tmp_path / "manifest.yaml").write_text("queue:\n  lockduration: 45000\n")

    done = subprocess.run(
        [sys.executable, "-m", "ackline", "serve", "--port", "0"],
        check=False, cwd=tmp_path, capture_output=True, text=True, timeout=30,
    )  # fmt: skip

    assert done.returncode != 0
    assert "manifest.yaml: the section queue can only have lockDuration, cleanup" in done.stderr


def test_an_event_source_that_acknowledges_by_id(running):
    """Like a page in a browser: listen, work, fetch."""
    url, options = running.url, {"queue": "page"}
    with httpx.Client(timeout=10) as client:
        for n in range(20):
            client.post(f"{url}/queue/enqueue", json={"value": n, "options": options})
        seen = []
        with connect_sse(client, "GET", f"{url}/queue/listen", params=options) as source:
            for event in source.iter_sse():
                if event.event != "message":
                    continue
                message = json.loads(event.data)
                assert event.id == message["id"]
                seen.append(message["value"])
                verb = "nack" if message["value"] == 7 and message["attempts"] == 1 else "ack"
                body = {"id": message["id"], **options} | ({"delay": 0} if verb == "nack" else {})
                assert httpx.post(f"{url}/queue/{verb}", json=body).json() == {"ok": True}
                if len(seen) == 21:
                    break
        assert sorted(seen) == sorted([*range(20), 7])
        assert client.get(f"{url}/queue/stats", params=options).json()["total"] == 0


def test_a_shutdown_releases_the_jobs_of_streams(serve, tmp_path):
    process = serve("--base-path", BASE)
    httpx.post(f"{process.url}/queue/enqueue", json={"value": 1})
    with (
        httpx.Client(timeout=10) as client,
        connect_sse(client, "GET", f"{process.url}/queue/listen") as source,
    ):
        events = source.iter_sse()
        next(events)
        output = process.end(signal.SIGTERM)
        assert list(events) == []

    assert process.process.returncode == 0
    assert "Traceback" not in output
    with ackline.open(f"sqlite:///{tmp_path}/ackline.db") as queues:
        counts = queues["default"].counts()
    assert (counts[State.QUEUED], counts[State.PROCESSING]) == (1, 0)


def test_several_processes_serve_one_store(serve):
    process = serve("--processes", "2", "--base-path", BASE)
    url = process.url
    with httpx.Client(timeout=20) as client:
        for n in range(30):
            client.post(f"{url}/queue/enqueue", json={"value": n})
        seen = []
        with connect_sse(client, "GET", f"{url}/queue/listen?prefetch=1") as source:
            for event in source.iter_sse():
                if event.event == "message":
                    id = json.loads(event.data)["id"]
                    seen.append(id)
                    # A connection each: the other process gets some of them.
                    assert httpx.post(f"{url}/queue/ack", json={"id": id}).status_code == 200
                    if len(seen) == 30:
                        break
    assert len(set(seen)) == 30
    output = process.end(signal.SIGTERM)
    assert process.process.returncode == 0, output


def test_several_processes_refuse_connections_after_shutdown(serve):
    """A request in progress must not keep them from others."""
    process = serve("--processes", "2", "--grace", "1s")
    url = httpx.URL(process.url)
    httpx.get(url.copy_with(path="/livez"), timeout=30)
    address = (url.host, url.port or 0)
    with socket.create_connection(address) as slow:
        slow.sendall(
            b"POST /api/queue/enqueue HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: 10\r\n\r\n{"
        )
        process.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + 10
        while (output := try_connection(address)) != "refused":
            assert output == "answered"
            assert time.monotonic() < until
    process.end()


def try_connection(address: tuple[str, int]) -> str:
    """The result of a new connection."""
    try:
        with socket.create_connection(address, 2) as link:
            link.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
            return "answered" if link.recv(100) else "refused"
    except TimeoutError:
        return "hangs"
    except OSError:
        return "refused"


def test_jobs_of_a_killed_process_are_recovered(serve, tmp_path):
    process = serve("--processes", "2", "--base-path", BASE)
    url = process.url
    body = {"value": 1, "options": {"lockDuration": 600_000}}
    httpx.post(f"{url}/queue/enqueue", json=body, timeout=20)
    with (
        httpx.Client(timeout=20) as client,
        connect_sse(client, "GET", f"{url}/queue/listen") as source,
        ackline.open(f"sqlite:///{tmp_path}/ackline.db") as queues,
    ):
        events = source.iter_sse()  # kept: closing it disconnects
        assert next(events).event == "message"
        worker = queues["default"].jobs(states=["processing"]).jobs[0].record.worker
        os.kill(_pid_of(process, worker), signal.SIGKILL)
        until(lambda: queues["default"].counts()[State.QUEUED])
    assert httpx.get(f"{url}/queue/poll").json()["message"]["attempts"] == 2


def test_a_restarted_supervisor_gets_its_port(serve):
    """Its children continue until clients can have noticed the shutdown."""
    first = serve("--processes", "2", "--base-path", BASE, ACKLINE_DRAIN="5")
    first.wait_for("serving")  # the other one
    url = httpx.URL(first.url)
    httpx.get(url.copy_with(path="/livez"), timeout=30)
    with socket.create_connection((url.host, url.port or 0)) as slow:
        slow.sendall(b"POST /api/queue/enqueue HTTP/1.1\r\nhost: localhost\r\n")
        first.process.kill()

        second = serve("--processes", "2", "--port", str(url.port), "--base-path", BASE)

        assert httpx.URL(second.url).port == url.port
        id = httpx.post(f"{second.url}/queue/enqueue", json={"value": 1}, timeout=20).json()["id"]
        assert httpx.get(f"{second.url}/queue/poll", timeout=20).json()["message"]["id"] == id
    second.end(signal.SIGTERM)
    assert "Error" not in first.end()


def test_a_port_closed_during_the_start_is_closed_after_it(runtime):
    async def serve() -> None:
        with application(runtime) as app:
            server, listener = Server(runtime, app=app), bind(Settings(port=0))
            serving = asyncio.create_task(server.serve(listener))
            await asyncio.sleep(0)
            server.close_port()
            async with asyncio.timeout(10):
                while listener.fileno() >= 0:
                    await asyncio.sleep(0.01)
            server.request_stop()
            await serving

    asyncio.run(serve())


def _pid_of(process, worker):
    found = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.process.pid)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return next(int(line.split()[0]) for line in found.splitlines() if worker in line)


def test_a_public_address_without_auth_is_refused(tmp_path):
    from ackline.cli.app import run

    assert run(["serve", "--host", "0.0.0.0", "--store", f"{tmp_path}/x.db"]) == 2
    assert not (tmp_path / "x.db").exists()


def test_an_address_in_use_is_refused(running, tmp_path, monkeypatch):
    from ackline.cli.app import run

    monkeypatch.setattr("ackline.service.server.WAIT_FOR_PORT", 0.3)
    port = running.url.rpartition(":")[2].split("/")[0]

    assert run(["serve", "--port", port, "--store", f"{tmp_path}/x.db"]) == 2


def test_several_processes_need_a_shared_store():
    from ackline.cli.app import run

    assert run(["serve", "--processes", "2", "--store", "memory://"]) == 2


def test_exhausted_file_descriptors_are_reported_once(tmp_path):
    process = Process(tmp_path)
    address = httpx.URL(process.url)
    try:
        resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        with contextlib.ExitStack() as clients:
            for _ in range(100):
                clients.enter_context(socket.create_connection((address.host, address.port)))
            process.wait_for("cannot accept connections")
            time.sleep(2.5)  # it tries again each second
        assert httpx.get(address.copy_with(path="/livez"), timeout=10).status_code == 200
    finally:
        output = process.end()
    assert "out of system resource" not in output
    assert "cannot accept connections" not in output
