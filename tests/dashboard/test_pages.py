"""Every page: it opens by its address, reads well for everyone, and survives what is bad."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from playwright.sync_api import expect

from ackline.core.errors import StoreUnavailable
from ackline.queue import NewJob
from ackline.stores.contract import Heartbeat
from tests.dashboard.browser import ROOT
from tests.service.views.gold_tables import make_gold

HTML = "<img src=x onerror=alert(1)>'\"&"
UNICODE = "team/ünïcode 🚀 100%"


class Backwards:
    """A format of somebody's own."""

    def dumps(self, value):
        return b"\xff" + value[::-1].encode()

    def loads(self, data):
        return data[1:].decode()[::-1]


@pytest.fixture
def busy(dashboard):
    """A bit of everything."""
    mail = dashboard["mail"]
    for n in range(4):
        mail.enqueue({"to": f"user{n}@example.com"}, id=f"mail-{n}", kind="welcome")
    mail.enqueue({}, id="later", delay=3600)
    mail.enqueue({}, id="lost", max_attempts=1, priority=9)
    mail.fail(mail.claim(1)[0], ValueError("no such user 7"))
    mail.complete(mail.claim(1)[0], {"sent": True})
    mail.claim(1, lease=300)
    mail.cancel("mail-3")
    mail.pause()
    heartbeat = Heartbeat(
        id="box-1", host="box", pid=7, started_at=0.0, concurrency=4, kinds=None, ttl=60.0
    )
    dashboard.runtime.store.heartbeat(mail.key, heartbeat, [])
    dashboard.api.put("/v1/queues/mail/schedules/nightly", {"cron": "0 3 * * *"})
    dashboard.api.put("/v1/keys/alerts/7", {"value": 1})
    return dashboard


PAGES = {
    "/": "Overview",
    "/queues/mail/processing": "mail",
    "/queues/mail/failed": "mail",
    "/queues/mail/failed?by=job": "mail",
    "/queues/mail/cancelled": "mail",
    "/queues/mail/jobs/lost": "lost",
    "/workers": "Workers",
    "/events": "Events",
    "/schedules": "Schedules",
    "/keyspace": "Keys",
    "/analytics": "Analytics",
    "/search?text=mail-0": "Search",
}


@pytest.fixture(scope="session")
def axe():
    """The checker of accessibility, from npm."""
    made = subprocess.run(
        [str(ROOT / "tools" / "dashboard"), "install"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"axe comes from npm, which did not work: {made.stderr}")
    return (ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js").read_text()


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Passed checks are not requested: their list is long, and takes longer than the checks.
RUN = """tags => axe
  .run(document, {runOnly: tags, resultTypes: ["violations"], preload: false})
  .then(({violations}) => violations.map(
    ({id, nodes}) => [id, nodes.map(node => node.html.slice(0, 120))]))"""


def violations(tab, axe):
    # Evaluated by the browser's tools, not by the page: its security policy stays as it is.
    if not tab.evaluate("'axe' in window"):
        tab.evaluate(axe)
    return tab.evaluate(RUN, RULES)


VARIANTS = [("light", 1280), ("dark", 375)]


def test_each_page_opens_by_its_address_and_is_accessible(busy, open_tab, axe):
    tab = open_tab(fresh=True)
    for address, heading in PAGES.items():
        tab.goto(busy.url + address)
        expect(tab.get_by_role("heading", level=1)).to_contain_text(heading)
        expect(tab.locator("[data-connection=live]")).to_be_visible()
        for theme, width in VARIANTS:
            tab.emulate_media(color_scheme=theme)
            tab.set_viewport_size({"width": width, "height": 740})
            expect(tab.locator(f"html[data-theme={theme}]")).to_have_count(1)
            assert (address, theme, violations(tab, axe)) == (address, theme, [])
            wide = tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{address} is {wide} px wide"


OVERFLOWING = """() => [...document.querySelectorAll("main .grid > *, main .head")]
  .flatMap(node => {
  const box = node.getBoundingClientRect();
  if (box.width < 2 || node.matches(".sr-only, .contents")) return [];
  const cut = node.scrollWidth > Math.ceil(box.width);
  // What is cut with dots is meant to be, but not the name of a column.
  const meant = getComputedStyle(node).overflowX !== "visible" && !node.matches(".head *, .head");
  return cut && !meant ? [node.outerHTML.slice(0, 160)] : [];
})"""


@pytest.mark.parametrize("width", [768, 900, 1024, 1199])
def test_no_column_runs_into_the_next_one(busy, open_tab, width):
    for _ in range(3):
        busy["mail"].enqueue({"to": "someone-with-a-long-name@example.com"}, kind="newsletter")
    zone = "America/Argentina/Buenos_Aires"
    schedule = {"cron": "0 3 * * MON-FRI", "timezone": zone, "kind": "newsletter"}
    busy.api.put("/v1/queues/mail/schedules/nightly-report-of-all-shops", schedule)
    tab = open_tab(viewport={"width": width, "height": 740})
    for address in (*PAGES, "/queues/mail/queued"):
        tab.goto(busy.url + address)
        expect(tab.get_by_role("heading", level=1)).to_be_visible()
        expect(tab.locator("[data-connection=live]")).to_be_visible()
        if address.startswith(("/queues", "/schedules", "/workers", "/events")):
            tab.wait_for_selector("main [role=row], main summary, main dl")
        assert (address, tab.evaluate(OVERFLOWING)) == (address, [])


def test_many_queues_leave_the_head_of_the_sidebar_whole(dashboard, open_tab):
    for number in range(60):
        dashboard[f"queue-{number}"].enqueue(number)

    tab = open_tab(dashboard.url)
    head = tab.get_by_role("navigation").locator("div").first

    expect(tab.get_by_role("navigation").get_by_text("queue-59")).to_have_count(1)
    assert head.bounding_box()["height"] == 56


def test_a_phone_shows_all_of_a_cron_expression(dashboard, open_tab):
    body = {"cron": "*/15 8-18 * * mon-fri"}
    dashboard.api.put("/v1/queues/mail/schedules/digest", body)

    tab = open_tab(f"{dashboard.url}/schedules", viewport={"width": 375, "height": 740})
    cell = tab.get_by_role("cell", name=body["cron"])

    assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


def test_an_id_is_cut_in_its_middle_and_copied_whole(dashboard, open_tab):
    id = dashboard["mail"].enqueue({"n": 1}).id
    tab = open_tab(f"{dashboard.url}/queues/mail", viewport={"width": 900, "height": 740})
    link = tab.get_by_role("link", name=id)
    expect(link).to_be_visible()
    assert link.locator(".truncate").evaluate("node => node.scrollWidth > node.clientWidth")
    assert link.evaluate("node => node.firstChild.scrollWidth <= node.firstChild.clientWidth")
    expect(link.get_by_title(id)).to_be_visible()
    copied = link.evaluate(
        "node => { getSelection().selectAllChildren(node); return getSelection().toString() }"
    )
    assert copied == id


def test_axe_would_find_something(dashboard, open_tab, axe):
    """The control."""
    tab = open_tab(f"{dashboard.url}/")
    expect(tab.get_by_role("heading", level=1)).to_be_visible()
    tab.evaluate("document.body.append(document.createElement('button'))")
    assert "button-name" in dict(violations(tab, axe))


def test_dialogs_are_accessible(busy, open_tab, axe):
    tab = open_tab(f"{busy.url}/queues/mail")
    tab.get_by_role("button", name="Enqueue").click()
    expect(tab.get_by_role("dialog")).to_be_visible()
    assert violations(tab, axe) == []


class TestOverview:
    def test_counts_and_durability(self, busy, open_tab):
        tab = open_tab(f"{busy.url}/")
        row = tab.get_by_role("row", name=re.compile("^mail"))
        expect(row).to_contain_text("Paused")
        expect(row.get_by_role("cell")).to_contain_text(["mail", "1", "1", "1", "0", "1"])
        expect(tab.get_by_text(busy.api.get("/v1/overview")["store"]["durability"])).to_be_visible()

    def test_an_empty_store_says_what_to_do(self, dashboard, open_tab):
        tab = open_tab(f"{dashboard.url}/")
        expect(tab.get_by_text("No queues yet")).to_be_visible()
        expect(tab.get_by_text("ackline enqueue")).to_be_visible()


class TestAnalytics:
    def test_it_says_how_to_get_data(self, dashboard, open_tab):
        tab = open_tab(f"{dashboard.url}/analytics")
        expect(tab.get_by_text("ackline serve --lake lake")).to_be_visible()

    def test_figures_of_a_lake(self, start_dashboard, store_url, open_tab, tmp_path, axe):
        make_gold(tmp_path / "lake")
        dashboard = start_dashboard(store_url, lake=str(tmp_path / "lake"))
        dashboard["images"].enqueue(1)
        tab = open_tab(f"{dashboard.url}/analytics")
        expect(tab.get_by_role("row", name=re.compile("images.*96.20 %"))).to_be_visible()
        expect(tab.get_by_role("row", name=re.compile("ConnectionError"))).to_be_visible()
        expect(tab.get_by_role("img", name="Wait time")).to_be_visible()
        # The median of the last hour, of all queues together; and when that was so.
        waits = tab.locator("section", has=tab.get_by_role("heading", name="Wait time"))
        expect(waits.get_by_role("listitem").first).to_have_text("median46ms")
        expect(tab.get_by_text(re.compile("As of .* ago"))).to_be_visible()
        assert violations(tab, axe) == []

        tab.get_by_label("Queue").select_option("images")
        expect(tab.get_by_role("row", name=re.compile("ConnectionError"))).to_have_count(0)


class TestJob:
    def test_its_whole_story(self, busy, open_tab):
        tab = open_tab(f"{busy.url}/queues/mail/jobs/lost")
        expect(tab.get_by_text("ValueError: no such user 7").first).to_be_visible()
        expect(tab.get_by_text("Attempt 1")).to_be_visible()
        timeline = tab.locator("section", has=tab.get_by_role("heading", name="Timeline"))
        expect(timeline.get_by_role("listitem")).to_contain_text(["failed", "claimed", "enqueued"])

    def test_a_job_that_is_deleted_while_it_is_shown(self, busy, open_tab):
        tab = open_tab(f"{busy.url}/queues/mail/jobs/lost")
        expect(tab.get_by_text("Attempt 1")).to_be_visible()
        expect(tab.locator("[data-connection=live]")).to_be_visible()
        busy["mail"].purge(ids=["lost"])

        expect(tab.get_by_text("This job no longer exists")).to_be_visible()
        tab.get_by_role("navigation", name="Main").get_by_role("link", name="Workers").click()
        expect(tab.get_by_role("heading", level=1)).to_have_text("Workers")

    def test_a_payload_of_1_mib(self, dashboard, open_tab):
        text = "x" * (1024 * 1024 - len('{"text":""}'))
        dashboard["mail"].enqueue({"text": text}, id="large")
        tab = open_tab(f"{dashboard.url}/queues/mail")
        expect(tab.locator("[data-id=large]")).to_contain_text('{"text":"xxx')
        tab.locator("[data-id=large]").get_by_role("link").click()

        shown = tab.get_by_label("Payload", exact=True)
        assert len(shown.inner_text()) < 25_000
        tab.get_by_role("button", name="Show all 1.0 MB").click()
        expect(shown).to_contain_text("x" * 30_000)

    def test_a_payload_that_is_not_json(self, dashboard, open_tab):
        dashboard.queues.queue("packed", serde=Backwards()).enqueue("hello", id="bytes")
        tab = open_tab(f"{dashboard.url}/queues/packed/jobs/bytes")

        expect(tab.get_by_text("Not JSON: 6 bytes")).to_be_visible()
        tab.get_by_role("button", name="Edit", exact=True).click()
        expect(tab.get_by_role("dialog")).to_contain_text("cannot be edited here")


class TestStrangeNames:
    def test_markup_is_shown_as_text(self, dashboard, open_tab):
        queue = dashboard[HTML]
        queue.enqueue({HTML: HTML}, id=HTML, kind=HTML, max_attempts=1)
        queue.fail(queue.claim(1)[0], ValueError(HTML))
        tab = open_tab(f"{dashboard.url}/", fresh=True)
        dialogs = []
        tab.on("dialog", lambda dialog: dialogs.append(dialog.message))
        tab.get_by_role("row").get_by_role("link", name=HTML, exact=True).click()
        tab.get_by_role("link", name=re.compile("Failed")).click()
        expect(tab.get_by_role("list", name="Errors")).to_contain_text(HTML)
        tab.get_by_role("button", name="By job").click()
        tab.locator("[data-id]").get_by_role("link").click()

        expect(tab.get_by_role("heading", level=1)).to_contain_text(HTML)
        expect(tab.get_by_label("Payload", exact=True)).to_contain_text(json.dumps(HTML))
        expect(tab.get_by_text(f"ValueError: {HTML}").first).to_be_visible()
        assert tab.locator("img[src=x]").count() == 0
        assert dialogs == []

    def test_slashes_and_emoji_in_names(self, dashboard, open_tab):
        dashboard[UNICODE].enqueue(1, id="a/b?c#d")
        tab = open_tab(f"{dashboard.url}/")
        tab.get_by_role("row").get_by_role("link", name=UNICODE, exact=True).click()
        expect(tab.get_by_role("heading", level=1)).to_contain_text(UNICODE)
        tab.locator("[data-id]").get_by_role("link").click()
        expect(tab.get_by_role("heading", level=1)).to_contain_text("a/b?c#d")

        tab.reload()
        expect(tab.get_by_role("heading", level=1)).to_contain_text("a/b?c#d")


def test_an_unavailable_store_is_shown_and_the_page_recovers(busy, open_tab, monkeypatch):
    tab = open_tab(f"{busy.url}/workers")
    expect(tab.locator("[data-worker=box-1]")).to_be_visible()

    def fail(*_args, **_kwargs):
        raise StoreUnavailable("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(busy.runtime.store, "page", fail)
        tab.goto(f"{busy.url}/queues/mail/queued")
        expect(tab.get_by_role("alert")).to_contain_text("the disk is gone", timeout=15_000)
    tab.get_by_role("button", name="Try again").click()
    expect(tab.locator("[data-id]").first).to_be_visible()


class TestConvenience:
    def test_search_finds_by_id_kind_and_payload(self, busy, open_tab):
        tab = open_tab(f"{busy.url}/")
        expect(tab.get_by_role("heading", level=1)).to_be_visible()
        for text, by in [("mail-1", "id"), ("welcome", "kind"), ("user1@example", "payload")]:
            tab.keyboard.press("/")
            tab.keyboard.type(text)
            tab.keyboard.press("Enter")
            expect(tab.get_by_role("heading", level=1)).to_contain_text(f"Search “{text}”")
            hits = tab.get_by_role("main").get_by_role("listitem")
            expect(hits.first).to_contain_text(by)
            expect(hits.first).to_contain_text("mail")
            tab.get_by_role("heading", level=1).click()
        expect(tab).to_have_url(re.compile(r"/search\?text=user1%40example"))

    def test_an_incomplete_search_is_marked_above_the_hits(self, dashboard, open_tab):
        for queue in ("mail", "sms"):
            dashboard[queue].enqueue_many(
                [NewJob(n, id=f"{queue}-{n}", kind="send") for n in range(11)]
            )

        tab = open_tab(f"{dashboard.url}/search?text=send", viewport={"width": 375, "height": 740})

        expect(tab.get_by_text("at most 10 jobs of a queue")).to_be_in_viewport()

    def test_keyboard(self, busy, open_tab):
        tab = open_tab(f"{busy.url}/queues/mail/queued")
        expect(tab.locator("[data-id]").first).to_be_visible()
        tab.keyboard.press("j")
        expect(tab.locator("[data-current]")).to_have_count(1)
        tab.keyboard.press("x")
        expect(tab.get_by_role("region", name="1 selected")).to_be_visible()
        tab.keyboard.press("Enter")
        expect(tab).to_have_url(re.compile("/jobs/mail-2"))
        tab.keyboard.press("?")
        expect(tab.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
        tab.keyboard.press("Escape")
        expect(tab.get_by_role("dialog")).to_have_count(0)
        tab.keyboard.press("o")
        expect(tab.get_by_role("heading", level=1)).to_have_text("Overview")

    def test_filters_are_in_the_address(self, busy, open_tab):
        tab = open_tab(f"{busy.url}/queues/mail/queued")
        tab.get_by_label("Payload contains").fill("user2")
        expect(tab).to_have_url(re.compile("text=user2"))
        tab.reload()
        expect(tab.get_by_label("Payload contains")).to_have_value("user2")
        expect(tab.locator("[data-id]")).to_have_count(1)

    def test_spanish(self, busy, open_tab):
        tab = open_tab(f"{busy.url}/queues/mail/failed", locale="es-MX")
        expect(tab.get_by_role("link", name=re.compile("Fallidos"))).to_be_visible()
        assert tab.evaluate("document.documentElement.lang") == "es"

    def test_theme_is_remembered(self, busy, open_tab):
        tab = open_tab(f"{busy.url}/")
        tab.get_by_role("button", name="Settings").click()
        tab.get_by_role("menuitem", name="Dark").click()
        tab.reload()
        expect(tab.locator("html[data-theme=dark]")).to_have_count(1)

    def test_times_are_local_with_utc_beside(self, busy, open_tab):
        tab = open_tab(f"{busy.url}/events", timezone_id="Asia/Tokyo")
        moment = tab.locator("time").first
        expect(moment).to_have_attribute("title", re.compile(r"Z \(UTC\)$"))
        hour = int(moment.get_attribute("title").split("T")[1][:2])
        assert int(moment.inner_text().split()[-1][:2]) == (hour + 9) % 24
