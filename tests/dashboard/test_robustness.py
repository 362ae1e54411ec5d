"""What goes wrong around the page: locales, frozen services, tokens that end, and slips."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest
from playwright.sync_api import expect

from ackline.cli.app import app
from ackline.service.auth import api_keys
from ackline.service.auth.credentials import ApiKey, hash_of
from ackline.service.auth.permissions import Scope
from tests.dashboard.browser import ROOT
from tests.docs.test_commands import parse
from tests.service.views.gold_tables import make_gold

pytestmark = pytest.mark.ci


def dialog(tab):
    return tab.get_by_role("dialog")


class TestABrowserOfItsOwnKind:
    def test_a_language_that_is_none_does_not_blank_the_page(self, dashboard, open_tab):
        dashboard["mail"].enqueue(1)
        tab = open_tab(fresh=True)
        # As Chromium says it in a C locale.
        tab.add_init_script(
            "Object.defineProperty(Navigator.prototype, 'language', {get: () => 'en-US@posix'})"
        )
        tab.goto(f"{dashboard.url}/")
        expect(tab.get_by_role("heading", level=1)).to_have_text("Overview")
        expect(tab.get_by_role("img", name=re.compile("^Jobs enqueued"))).to_be_visible()
        expect(tab).to_have_title("Overview · Ackline")

    def test_one_that_stores_nothing(self, dashboard, open_tab):
        tab = open_tab(fresh=True)
        tab.add_init_script(
            "for (const name of ['localStorage', 'sessionStorage'])"
            " Object.defineProperty(window, name, {get() { throw new Error('blocked') }})"
        )
        tab.goto(f"{dashboard.url}/")
        expect(tab.get_by_role("heading", level=1)).to_have_text("Overview")

    def test_an_error_while_rendering_replaces_only_that_view(self, dashboard, open_tab):
        tab = open_tab(fresh=True)
        nonsense = '{"workers": 7}'
        tab.route(
            "**/v1/workers", lambda route: route.fulfill(body=nonsense, content_type="text/json")
        )
        tab.goto(f"{dashboard.url}/workers")
        expect(tab.get_by_text("This view cannot be shown")).to_be_visible()
        tab.get_by_role("navigation", name="Main").get_by_role("link", name="Events").click()
        expect(tab.get_by_role("heading", level=1)).to_have_text("Events")
        assert tab.errors
        tab.errors.clear()


class TestTokens:
    @pytest.fixture
    def dashboard(self, start_dashboard, store_url):
        dashboard = start_dashboard(store_url, stored_keys=True)
        dashboard["mail"].enqueue({"to": "ann"}, id="a")
        return dashboard

    @pytest.fixture
    def sign_in(self, dashboard, open_tab):
        def enter(tab, *scopes, **limits):
            text, id = api_keys.new_key()
            key = ApiKey(
                id=id,
                hash=hash_of(text),
                name="ops",
                tenant="default",
                scopes=frozenset(scopes),
                **limits,
            )
            api_keys.store_key(dashboard.runtime.store, key)
            tab.get_by_label("API key or token").fill(text)
            tab.get_by_role("button", name="Sign in").click()
            return id

        return enter

    def test_one_for_some_queues_can_move_many_jobs(self, dashboard, open_tab, sign_in):
        tab = open_tab(f"{dashboard.url}/queues/mail")
        sign_in(tab, *Scope, queues=frozenset({"mail", "other"}))
        tab.get_by_role("checkbox", name="Select a").check()
        tab.get_by_role("button", name="Move").click()
        expect(dialog(tab).get_by_text("1 job matches now")).to_be_visible()
        dialog(tab).get_by_label("To queue").fill("other")
        dialog(tab).get_by_role("button", name="Move: 1 job").click()

        expect(tab.get_by_text("Moved 1 job")).to_be_visible()
        assert dashboard["other"].status("a").state == "queued"

    def test_a_caller_without_the_read_scope_sees_why(self, dashboard, open_tab, sign_in):
        tab = open_tab(f"{dashboard.url}/queues/mail")
        sign_in(tab, Scope.PRODUCE)
        expect(tab.get_by_text("Your token does not allow reading")).to_be_visible()
        expect(tab.get_by_text("Connection lost")).to_have_count(0)
        tab.get_by_role("button", name="Sign out").click()
        expect(tab.get_by_label("API key or token")).to_be_visible()

    def test_typed_text_is_kept_when_the_token_expires(
        self, dashboard, open_tab, sign_in, monkeypatch
    ):
        # given: an edit that is half done
        monkeypatch.setattr(api_keys, "CACHE_SECONDS", 0.0)
        tab = open_tab(f"{dashboard.url}/queues/mail/jobs/a")
        key = sign_in(tab, *Scope)
        tab.get_by_role("button", name="Edit", exact=True).click()
        dialog(tab).get_by_label("Payload (JSON)").fill('{"to": "bob"}')

        # when
        api_keys.revoke_key(dashboard.runtime.store, key)
        dashboard["mail"].enqueue(1)
        expect(tab.get_by_text("Your token is no longer valid")).to_be_visible()

        # then: after signing in again, the user continues on the same page
        sign_in(tab, *Scope)
        expect(tab.get_by_label("API key or token")).to_have_count(0)
        dialog(tab).get_by_role("button", name="Save").click()
        expect(tab.get_by_text("Edited a")).to_be_visible()
        assert dashboard["mail"].status("a").payload == {"to": "bob"}
        expect(tab.locator("[data-connection=live]")).to_be_visible()


def test_a_frozen_service_is_noticed_before_the_stream_is(tmp_path, open_tab):
    store = f"sqlite:///{tmp_path}/jobs.db"
    command = [sys.executable, "-m", "ackline", "--store", store, "serve", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    service = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    with service:
        assert service.stdout is not None
        found = (re.search(r"http://[\d.]+:\d+", line) for line in service.stdout)
        url = next(one for one in found if one is not None).group()
        tab = open_tab(f"{url}/")
        expect(tab.locator("[data-connection=live]")).to_be_visible()
        service.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            expect(tab.get_by_text("Connection lost")).to_be_visible(timeout=20_000)
            assert time.monotonic() - began < 15
        finally:
            service.send_signal(signal.SIGCONT)
        expect(tab.get_by_text("Connection lost")).to_have_count(0)
        service.terminate()


class TestDialogs:
    def test_a_selection_that_is_dragged_out_of_a_field_closes_nothing(self, dashboard, open_tab):
        tab = open_tab(f"{dashboard.url}/")
        tab.get_by_role("button", name="Enqueue").click()
        field = dialog(tab).get_by_label("Payload (JSON)")
        field.fill('{"long": "typed"}')
        box = field.bounding_box()
        tab.mouse.move(box["x"] + 150, box["y"] + 20)
        tab.mouse.down()
        tab.mouse.move(box["x"] - 200, box["y"] + 20, steps=5)
        tab.mouse.up()
        expect(field).to_have_value('{"long": "typed"}')

        # and Escape asks before it loses what was typed
        tab.keyboard.press("Escape")
        expect(dialog(tab).get_by_text("Discard what you have typed?")).to_be_visible()
        dialog(tab).get_by_role("button", name="Keep editing").click()
        expect(field).to_have_value('{"long": "typed"}')
        tab.keyboard.press("Escape")
        dialog(tab).get_by_role("button", name="Discard", exact=True).click()
        expect(dialog(tab)).to_have_count(0)

    def test_back_leads_to_the_same_row(self, dashboard, open_tab):
        dashboard["mail"].enqueue_many([{"n": n} for n in range(150)])
        tab = open_tab(f"{dashboard.url}/queues/mail")
        expect(tab.locator("[data-id]").first).to_be_visible()
        for _ in range(30):
            tab.keyboard.press("j")
        tab.keyboard.press("x")
        here = tab.locator("[data-current]").get_attribute("data-id")
        top = tab.get_by_role("table").evaluate("node => node.scrollTop")
        assert top > 0
        tab.keyboard.press("Enter")
        expect(tab.get_by_role("heading", level=1)).to_contain_text(here)

        tab.go_back()
        expect(tab.locator("[data-current]")).to_have_attribute("data-id", here)
        expect(tab.get_by_role("region", name="1 selected")).to_be_visible()
        assert tab.get_by_role("table").evaluate("node => node.scrollTop") == top

    def test_a_queue_that_is_not_there_offers_to_make_it(self, dashboard, open_tab):
        tab = open_tab(f"{dashboard.url}/queues/nosuch/queued")
        expect(tab.get_by_text("There is no queue “nosuch”")).to_be_visible()
        expect(tab.get_by_role("button", name="Enqueue")).to_be_visible()
        expect(tab.get_by_role("button", name="Pause")).to_have_count(0)

    def test_many_small_values_do_not_freeze_the_page(self, dashboard, open_tab):
        dashboard["mail"].enqueue([{"i": i, "v": f"v{i}"} for i in range(40_000)], id="large")
        tab = open_tab(fresh=True)
        tab.add_init_script(
            "window.long = []; new PerformanceObserver(list => window.long.push("
            "...list.getEntries().map(one => one.duration))).observe({type: 'longtask'})"
        )
        tab.goto(f"{dashboard.url}/queues/mail/jobs/large")
        tab.get_by_role("button", name="Show all").click()
        shown = tab.get_by_label("Payload", exact=True)
        expect(shown).to_contain_text('"v": "v0"')
        shown.evaluate("node => node.scrollTo(0, node.scrollHeight)")
        expect(shown).to_contain_text('"v": "v39999"')
        tab.get_by_role("button", name="Edit", exact=True).click()
        expect(dialog(tab)).to_contain_text("Too large to edit here")
        assert max(tab.evaluate("window.long"), default=0) < 4000

    def test_the_tab_of_a_link_is_in_view_on_a_phone(self, dashboard, open_tab):
        dashboard["mail"].enqueue(1)
        tab = open_tab(
            f"{dashboard.url}/queues/mail/failed", viewport={"width": 375, "height": 700}
        )
        current = tab.get_by_role("navigation", name="States").locator("[aria-current=page]")
        expect(current).to_be_in_viewport(ratio=0.9)
        tab.goto(f"{dashboard.url}/analytics")
        title = tab.get_by_role("heading", level=1)
        assert title.evaluate("node => node.scrollWidth <= node.clientWidth")


def test_visible_events_do_not_move_when_events_arrive(dashboard, open_tab):
    dashboard["mail"].enqueue_many([{"n": n} for n in range(300)])
    tab = open_tab(f"{dashboard.url}/events")
    table = tab.get_by_role("table")
    expect(tab.get_by_role("row").nth(1)).to_be_visible()
    expect(tab.locator("[data-connection=live]")).to_be_visible()
    table.evaluate("node => node.scrollTo(0, 3200)")
    tab.wait_for_timeout(200)
    read = tab.get_by_role("row").nth(20)
    id = read.get_by_role("link").last.inner_text()
    before = read.bounding_box()["y"]

    dashboard["mail"].enqueue_many(range(5))
    expect(tab.get_by_role("link", name="mail 305")).to_be_visible()

    after = tab.get_by_role("row").filter(has_text=id).bounding_box()["y"]
    assert abs(after - before) < 2


def test_a_first_hour_is_shown_as_figures(start_dashboard, store_url, open_tab, tmp_path):
    make_gold(tmp_path / "lake", days=1, hours=1)
    dashboard = start_dashboard(store_url, lake=str(tmp_path / "lake"))
    tab = open_tab(f"{dashboard.url}/analytics")
    expect(tab.get_by_text("from the third hour on").first).to_be_visible()
    expect(tab.get_by_role("img", name="Wait time")).to_have_count(0)
    expect(tab.get_by_text("2,330")).to_be_visible()


def commands():
    text = (ROOT / "dashboard" / "src" / "format" / "commands.ts").read_text()
    return [found[1:-1] for found in re.findall(r': ("[^"]+"|`[^`]+`),', text)]


def test_the_commands_on_empty_pages_are_valid():
    program = app.load()
    arguments = [shlex.split(command)[1:] for command in commands()]
    assert [command[0] for command in arguments] == ["enqueue", "worker", "pipeline", "serve"]
    for command in arguments:
        parse(program, command)
    # The worker is that of the first steps, where it runs.
    assert f"$ ackline {' '.join(arguments[1])}\n" in (ROOT / "docs" / "first-steps.md").read_text()
