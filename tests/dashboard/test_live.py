"""Events appear immediately, after a lost connection, and in any number."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.waiting import until

pytestmark = pytest.mark.ci

WORKER = """
import sys, time
import ackline
queue = ackline.open(sys.argv[1])["mail"]

@queue.handler("default", lease=60)
def stay(job):
    print("holding", flush=True)
    time.sleep(600)

ackline.Worker(queue, concurrency=1).run()
"""


def live(tab):
    expect(tab.locator("[data-connection=live]")).to_be_visible()


@pytest.mark.every_store
def test_a_new_job_appears_and_disappears_without_a_reload(dashboard, open_tab):
    dashboard["mail"].enqueue(1, id="old")
    tab = open_tab(f"{dashboard.url}/queues/mail")
    expect(tab.locator("[data-id=old]")).to_be_visible()
    live(tab)

    dashboard["mail"].enqueue(1, id="new")
    expect(tab.locator("[data-id=new]")).to_be_visible()

    dashboard["mail"].claim(2)
    expect(tab.locator("[data-id]")).to_have_count(0)
    expect(tab.get_by_role("link", name="Processing 2")).to_be_visible()


def test_only_what_changed_is_fetched_again(dashboard, open_tab):
    dashboard["mail"].enqueue(1, id="a")
    dashboard["other"].enqueue(1, id="b")
    tab = open_tab(f"{dashboard.url}/queues/mail", fresh=True)
    expect(tab.locator("[data-id=a]")).to_be_visible()
    live(tab)
    tab.wait_for_timeout(1500)
    requested = []
    tab.on("request", lambda request: requested.append(request.url.removeprefix(dashboard.url)))

    dashboard["other"].enqueue(1, id="c")
    expect(tab.get_by_role("link", name=re.compile("^other"))).to_have_text("other2")

    assert not [url for url in requested if "/queues/mail/jobs?" in url]
    assert [url for url in requested if "/overview" in url]


def test_a_broken_connection_is_shown_and_resumed_at_its_cursor(
    start_dashboard, store_url, open_tab
):
    # given: a page that follows
    dashboard = start_dashboard(store_url)
    dashboard["mail"].enqueue(1, id="before")
    tab = open_tab(f"{dashboard.url}/events", fresh=True)
    live(tab)
    expect(tab.get_by_text("before")).to_be_visible()

    # when the service is away while something happens
    dashboard.stop()
    expect(tab.get_by_text("Connection lost")).to_be_visible()
    again = start_dashboard(store_url, port=dashboard.port)
    again["mail"].enqueue(1, id="meanwhile")

    # then the page continues after the last event it has seen
    expect(tab.get_by_text("Connection lost")).to_have_count(0)
    expect(tab.get_by_text("meanwhile")).to_be_visible()


def test_ten_tabs_share_one_stream(dashboard, open_tab):
    """Six connections to a host are a browser's most over HTTP/1.1: ten streams leave it none."""
    first = open_tab(f"{dashboard.url}/queues/mail", fresh=True)
    tabs = [first, *(first.context.new_page() for _ in range(9))]
    for tab in tabs[1:]:
        tab.goto(f"{dashboard.url}/queues/mail")
    for tab in tabs:
        live(tab)
    dashboard["mail"].enqueue(1, id="seen-by-all")
    for tab in tabs:
        expect(tab.locator("[data-id=seen-by-all]")).to_be_visible()
    # Those of tests before this one end with their next ping.
    until(lambda: len(dashboard.runtime.streams) == 1)

    # and it ends with the last of them, not with the one that came first
    first.close()
    dashboard["mail"].enqueue(1, id="seen-by-nine")
    for tab in tabs[1:]:
        expect(tab.locator("[data-id=seen-by-nine]")).to_be_visible()


def test_a_browser_without_shared_workers_has_a_stream_for_each_tab(dashboard, open_tab):
    tab = open_tab(fresh=True)
    tab.add_init_script("delete window.SharedWorker")
    tab.goto(f"{dashboard.url}/queues/mail")
    live(tab)
    dashboard["mail"].enqueue(1, id="new")
    expect(tab.locator("[data-id=new]")).to_be_visible()


def test_a_worker_that_cannot_be_loaded_leaves_a_stream_for_each_tab(dashboard, open_tab):
    tab = open_tab(fresh=True)
    tab.add_init_script(
        "const Real = SharedWorker; window.SharedWorker = function () {"
        " return new Real('/assets/absent.js', {type: 'module'}) }"
    )
    tab.goto(f"{dashboard.url}/queues/mail")
    live(tab)
    dashboard["mail"].enqueue(1, id="new")
    expect(tab.locator("[data-id=new]")).to_be_visible()


def test_events_can_be_paused_and_filtered(dashboard, open_tab):
    dashboard["mail"].enqueue(1, id="first")
    tab = open_tab(f"{dashboard.url}/events")
    expect(tab.get_by_text("first")).to_be_visible()
    live(tab)
    tab.get_by_role("button", name="Pause").click()
    dashboard["mail"].enqueue_many([1, 2, 3])
    expect(tab.get_by_text("3 more since the pause")).to_be_visible()
    expect(tab.get_by_role("row")).to_have_count(2)
    tab.get_by_text("3 more since the pause").click()
    expect(tab.get_by_role("row")).to_have_count(5)

    tab.get_by_label("Event", exact=True).select_option("claimed")
    expect(tab.get_by_text("No event matches")).to_be_visible()
    dashboard["mail"].claim(1)
    expect(tab.get_by_role("row")).to_have_count(2)


def test_visible_rows_do_not_move_when_rows_are_added(dashboard, open_tab):
    dashboard["mail"].enqueue_many([{"n": n} for n in range(300)])
    tab = open_tab(f"{dashboard.url}/queues/mail")
    table = tab.get_by_role("table")
    expect(tab.locator("[data-id]").first).to_be_visible()
    live(tab)
    table.evaluate("node => node.scrollTo(0, 3600)")
    tab.wait_for_timeout(200)
    read = tab.locator("[data-id]").nth(20)
    id, before = read.get_attribute("data-id"), read.bounding_box()["y"]

    dashboard["mail"].claim(50)
    expect(tab.get_by_role("link", name="Processing 50")).to_be_visible()
    tab.wait_for_timeout(500)

    after = tab.locator(f'[data-id="{id}"]').bounding_box()["y"]
    assert abs(after - before) < 2


def test_ten_thousand_rows_are_scrolled_through(dashboard, open_tab):
    for start in range(0, 10_000, 1000):
        dashboard["mail"].enqueue_many([{"n": n} for n in range(start, start + 1000)])
    tab = open_tab(f"{dashboard.url}/queues/mail", fresh=True)
    table = tab.get_by_role("table")
    expect(tab.locator("[data-id]").first).to_be_visible()
    table.evaluate(
        "node => { window.down = setInterval(() => node.scrollTo(0, node.scrollHeight), 50) }"
    )
    expect(tab.get_by_text("10,000 jobs")).to_be_visible(timeout=60_000)
    tab.evaluate("clearInterval(window.down)")
    table.evaluate("node => node.scrollTo(0, node.scrollHeight)")

    last = tab.locator("[data-id]").last
    expect(last).to_contain_text('{"n":9999}')
    assert tab.locator("[data-id]").count() < 100

    # and of so long a list only what is new is fetched
    live(tab)
    requested = []
    tab.on(
        "request", lambda request: requested.append(request.url) if "/jobs?" in request.url else 0
    )
    for n in range(3):
        dashboard["mail"].enqueue({"n": 10_000 + n}, id=f"new-{n}")
        expect(tab.get_by_text(f"10,00{n + 1} jobs")).to_be_visible()
    assert 1 <= len(requested) <= 3
    table.evaluate("node => node.scrollTo(0, node.scrollHeight)")
    expect(tab.locator("[data-id]").last).to_have_attribute("data-id", "new-2")

    # and the events of a bulk operation can be found
    tab.goto(f"{dashboard.url}/events")
    expect(tab.get_by_role("row").nth(1)).to_contain_text("new-2")
    tab.get_by_label("Id, worker").fill("NEW-1")
    expect(tab.get_by_role("row")).to_have_count(2)


class TestWorkers:
    @pytest.fixture
    def dashboard(self, start_dashboard, store_url):
        return start_dashboard(store_url)

    @pytest.fixture
    def process(self, store_url, tmp_path, dashboard):
        dashboard["mail"].enqueue(1, id="held")
        program = tmp_path / "work.py"
        program.write_text(WORKER)
        process = subprocess.Popen(
            [sys.executable, str(program), store_url], stdout=subprocess.PIPE, text=True
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "holding\n"
            yield process
            process.kill()

    def test_a_killed_worker_is_shown_as_stopped_and_its_job_moves(
        self, dashboard, process, open_tab
    ):
        # given
        tab = open_tab(f"{dashboard.url}/workers")
        line = tab.locator("[data-worker]")
        expect(line).to_have_attribute("data-health", "alive")
        line.locator("summary").click()
        expect(tab.get_by_role("list", name=re.compile("^Jobs of mail"))).to_contain_text("held")

        # when
        os.kill(process.pid, signal.SIGKILL)

        # then: it is unresponsive, then stopped, long before the lease would end
        expect(line).to_have_attribute("data-health", "unresponsive", timeout=15_000)
        expect(line).to_have_attribute("data-health", "stopped", timeout=15_000)
        expect(line.get_by_text("No heartbeat for")).to_be_visible()
        tab.goto(f"{dashboard.url}/queues/mail/jobs/held")
        expect(tab.get_by_role("listitem").filter(has_text="lease expired").first).to_be_visible(
            timeout=15_000
        )
        assert dashboard["mail"].status("held").state in ("failing", "queued")


@pytest.mark.slow
def test_a_thousand_events_a_second_leave_the_page_responsive(dashboard, open_tab):
    tab = open_tab(fresh=True)
    tab.add_init_script(
        "window.long = []; new PerformanceObserver(list => window.long.push("
        "...list.getEntries().map(one => one.duration))).observe({type: 'longtask'})"
    )
    tab.goto(f"{dashboard.url}/queues/mail")
    paint = tab.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
    )
    assert paint < 1000
    tab.evaluate("window.long.length = 0")
    for _ in range(25):
        dashboard["mail"].enqueue_many(range(200))
        tab.wait_for_timeout(200)

    assert [round(one) for one in tab.evaluate("window.long") if one > 100] == []
