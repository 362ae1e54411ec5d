"""Runs each curl command and script of a page as printed against `ackline serve`.

Our own page is run always. `ACKLINE_EXAMPLES=FILE` runs those of another document as well: of
something that this service takes the place of, so that its users need to change nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.dashboard.browser import launch
from tests.docs.pages import DOCS, Block, blocks_of
from tests.service.conftest import Process
from tests.waiting import until

OTHER_PAGE = os.environ.get("ACKLINE_EXAMPLES")
PAGES = [DOCS / "guides" / "messages.md", *([Path(OTHER_PAGE)] if OTHER_PAGE else [])]
SHELLS, SCRIPTS, RESPONSES = {"sh", "bash"}, {"js", "javascript"}, {"json", "text", ""}
MAX_SECONDS = 2
"""Seconds after which curl ends a stream."""


class Example(NamedTuple):
    """A block of commands or a script, and the response that the page shows."""

    page: Path
    block: Block
    shown: list[Block]

    def __str__(self) -> str:
        return f"{self.page.name}:{self.block.line}"

    @property
    def base(self) -> str:
        """The base path of its URLs."""
        found: list[str] = re.findall(
            r"[\"' ](?:http://localhost:8000)?(/\S*?api)/", self.block.text
        )
        return found[0]

    @property
    def commands(self) -> list[Command]:
        arguments = shlex.split(self.block.text.replace("\\\n", " "), comments=True)
        starts = [at for at, word in enumerate(arguments) if word == "curl"]
        return [
            Command.read(arguments[begin + 1 : end], self.base)
            for begin, end in zip(starts, [*starts[1:], None], strict=True)
        ]

    @property
    def enqueues(self) -> bool:
        """Whether it is about a message of its own."""
        return any(command.path == "/queue/enqueue" for command in self.commands)


class Command(NamedTuple):
    """The request of a curl command."""

    method: str
    path: str
    query: dict[str, list[str]]
    body: dict[str, Any] | None

    @classmethod
    def read(cls, arguments: list[str], base: str) -> Command:
        after = dict(pairwise(arguments))
        url = urlsplit(next(word for word in arguments if "localhost" in word))
        body = json.loads(after["-d"]) if "-d" in after else None
        return cls(after.get("-X", "GET"), url.path.removeprefix(base), parse_qs(url.query), body)


def examples(languages: set[str], word: str) -> list[Example]:
    found = []
    for page in PAGES:
        blocks = blocks_of(page)
        for at, block in enumerate(blocks):
            if block.language in languages and word in block.text:
                after = blocks[at + 1 :]
                ends = (n for n, one in enumerate(after) if one.language not in RESPONSES)
                found.append(Example(page, block, after[: next(ends, None)]))
    return found


CURLS, LISTENERS = examples(SHELLS, "curl "), examples(SCRIPTS, "EventSource")


class Service:
    """A service below the base path that a page has, and what an example finds in it."""

    def __init__(self, folder: Path, base: str, port: int = 0) -> None:
        self.process = Process(folder, "--base-path", base, "--port", str(port))
        self.url = self.process.url
        self.port = urlsplit(self.url).port or 0
        self.client = httpx.Client(base_url=self.url, timeout=10)

    def send(self, method: str, path: str, **options: Any) -> Any:
        answer = self.client.request(method, path, **options)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def enqueue(self, value: Any, **options: Any) -> str:
        body = {"value": value, "options": options}
        return str(self.send("POST", "/queue/enqueue", json=body)["id"])

    def claim(self, id: str) -> None:
        self.enqueue({"task": "mail"}, id=id, priority=9)
        assert self.send("GET", "/queue/poll")["message"]["id"] == id

    def bury(self, id: str) -> None:
        self.enqueue({"task": "mail"}, id=id, priority=9, maxAttempts=1)
        self.send("GET", "/queue/poll")
        self.send("POST", "/queue/nack", json={"id": id, "error": "Connection timeout"})

    def job(self, id: str) -> Any:
        return self.send("GET", f"/v1/queues/default/jobs/{id}")

    def prepare(self, command: Command) -> None:
        """Put there what a reader of the page has at this point."""
        match command.path.strip("/").split("/"):
            case ["queue", "poll" | "listen"]:
                self.enqueue({"task": "mail"})
            case ["queue", "ack" | "nack" | "touch"]:
                assert command.body is not None
                self.claim(command.body["id"])
            case ["queue", "dlq"]:
                self.bury("given-up")
            case ["queue", "dlq", id, *_]:
                self.bury(id)
            case _:
                pass

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.client.close()
        self.process.end(number)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Service]]:
    """One for each base path."""
    running: dict[str, Service] = {}
    for base in {example.base for example in CURLS}:
        running[base] = Service(tmp_path_factory.mktemp("service"), base)
    yield running
    for service in running.values():
        service.stop()


@pytest.fixture
def service(services: dict[str, Service], example: Example) -> Service:
    """The one that an example is about, with nothing in it."""
    service = services[example.base]
    service.enqueue("so that there is a queue")
    service.send("POST", "/v1/queues/default/purge")
    return service


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
@pytest.mark.parametrize("example", CURLS, ids=str)
def test_a_command_does_what_the_page_says(service, example, tmp_path):
    if not example.enqueues:
        for command in example.commands:
            service.prepare(command)

    responses = run(example.block, service, tmp_path)

    for command, answer in zip(example.commands, responses, strict=True):
        check(service, command, answer)
    if example.shown:
        assert any(fits(shown.text, responses[0]) for shown in example.shown), responses


def run(block: Block, service: Service, folder: Path) -> list[str]:
    """Run the block in a shell, as printed; returns the response of each command."""
    # Options that every curl reads: they lead what is printed to where the service is.
    (folder / ".curlrc").write_text(
        f'connect-to = "localhost:8000:127.0.0.1:{service.port}"\n'
        f'silent\nshow-error\nmax-time = {MAX_SECONDS}\nwrite-out = "\\n--- %{{http_code}}\\n"\n'
    )
    done = subprocess.run(
        ["bash", "-c", block.text],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "CURL_HOME": str(folder), "HOME": str(folder)},
    )
    *outputs, rest = re.split(r"\n--- (?=\d)", done.stdout)
    assert outputs, done.stderr
    answers = [outputs[0]]
    for one in [*outputs[1:], rest]:
        status, _, text = one.partition("\n")
        assert status == "200", (status, done.stdout)
        answers.append(text)
    return answers[:-1]


def fits(shown: str, response: str) -> bool:
    """Whether a response is like the one that the page shows."""
    if shown.startswith("event: "):
        return response.startswith("event: message\nid: ")
    return has_same_shape(json.loads(shown), json.loads(response))


def has_same_shape(shown: Any, response: Any) -> bool:
    """The same names and types; the values are the reader's own."""
    match shown, response:
        case dict(), dict():
            return shown.keys() <= response.keys() and all(
                name == "value" or has_same_shape(shown[name], response[name]) for name in shown
            )
        case list(), list():
            return bool(response) and all(has_same_shape(shown[0], one) for one in response)
        case ((int() | float()), (int() | float())):
            return True
        case _:
            return type(shown) is type(response)


def check(service: Service, command: Command, response: str) -> None:
    """That it was not only answered but done."""
    match command.path.strip("/").split("/"):
        case ["queue", "enqueue"]:
            check_enqueued(service, command.body or {}, json.loads(response)["id"])
        case ["queue", "ack"]:
            assert service.job((command.body or {})["id"])["state"] == "completed"
        case ["queue", "nack"]:
            assert service.job((command.body or {})["id"])["state"] == "failing"
        case ["queue", "dlq", id, "requeue"]:
            assert service.job(id)["state"] == "queued"
        case ["queue", "dlq", id] if command.method == "DELETE":
            assert service.client.get(f"/queue/dlq/{id}").status_code == 404
        case ["queue", "dlq"] if command.method == "DELETE":
            assert json.loads(response) == {"deletedCount": 1}
            assert service.send("GET", "/queue/dlq") == []
        case ["queue", "listen"]:
            data = next(line for line in response.splitlines() if line.startswith("data: {"))
            assert json.loads(data.removeprefix("data: "))["attempts"] == 1
        case _:
            pass


def check_enqueued(service: Service, body: dict[str, Any], id: str) -> None:
    """Its delay and backoff are as requested, up to the DLQ and its keys."""
    options, job = body.get("options", {}), service.job(id)
    assert job["payload"] == body["value"]
    if delay := options.get("delay"):
        assert job["state"] == "scheduled"
        assert job["run_at"] - job["created_at"] == pytest.approx(delay / 1000)
    if schedule := options.get("backoffSchedule"):
        for milliseconds in schedule[job["attempts"] :]:  # some examples listen, and leave
            failed = fail(service, id)
            assert failed["state"] == "failing"
            waits = failed["run_at"] - failed["history"][-1]["at"]
            assert waits == pytest.approx(milliseconds / 1000)
        assert fail(service, id)["state"] == "failed"
    for key in options.get("keysIfUndelivered", ()):
        found = service.send("GET", "/keys", params={"prefix": key[0]})
        assert [one["value"] for one in found if one["key"] == key] == [body["value"]]


def fail(service: Service, id: str) -> Any:
    """Fail one more attempt immediately."""
    if service.job(id)["state"] != "queued":
        service.send("PATCH", f"/v1/queues/default/jobs/{id}", json={"delay": 0})
    message = service.send("GET", "/queue/poll?wait=10")["message"]
    assert message["id"] == id
    service.send("POST", "/queue/nack", json={"id": id})
    return service.job(id)


# --- in a browser ---


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


WORK = """
window.done = [];
window.work = window.processMessage = async (value) => {
  if (value.fails) throw new Error("as it was asked to");
  window.done.push(value.n);
};
"""


@pytest.mark.parametrize("example", LISTENERS, ids=str)
def test_a_script_does_what_the_page_says(service, example, tab):
    open_script(tab, service, WORK, example.block.text)
    for n in range(20):
        service.enqueue({"n": n})
    broken = service.enqueue({"n": 20, "fails": True})

    until(lambda: service.send("GET", "/queue/stats")["total"] == 1)

    assert sorted(tab.evaluate("window.done")) == list(range(20))
    until(lambda: service.job(broken)["state"] == "failing")
    tab.goto("about:blank")  # it leaves


@pytest.mark.parametrize("example", LISTENERS, ids=str)
def test_a_script_continues_when_the_service_is_back_after_a_crash(example, tab, tmp_path):
    service = Service(tmp_path, example.base)
    try:
        open_script(tab, service, WORK, example.block.text)
        service.enqueue({"n": 1})
        until(lambda: service.send("GET", "/queue/stats")["total"] == 0)
        service = restarted(service, tmp_path, example.base)
        service.enqueue({"n": 2})
        until(lambda: service.send("GET", "/queue/stats")["total"] == 0, 30)
        assert tab.evaluate("window.done") == [1, 2]
    finally:
        service.stop()


RECORD_EVENTS = """
window.told = [];
const told = new EventSource("/api/v1/events/stream");
told.addEventListener("enqueue", (event) => window.told.push(JSON.parse(event.data).id));
"""


def test_a_browser_that_connects_again_has_missed_no_event(tab, tmp_path):
    service = Service(tmp_path, "/api")
    try:
        open_script(tab, service, RECORD_EVENTS)
        tab.wait_for_function("told.readyState === EventSource.OPEN")
        first = service.enqueue(1)
        tab.wait_for_function("window.told.length === 1")
        service = restarted(service, tmp_path, "/api")
        meanwhile = [service.enqueue(n) for n in range(3)]
        tab.wait_for_function("window.told.length >= 4", timeout=30_000)
        assert tab.evaluate("window.told") == [first, *meanwhile]
    finally:
        service.stop()


def open_script(tab: Page, service: Service, *texts: str) -> None:
    """A page of the service that runs this; it knows no more than the addresses in it."""
    tab.goto(f"http://localhost:{service.port}/livez")
    for text in texts:
        tab.add_script_tag(content=text)


def restarted(service: Service, folder: Path, base: str) -> Service:
    """The same again, after a crash."""
    service.stop()
    return Service(folder, base, service.port)
