"""The Processing table counts down by the store's clock, as the customer's document has it."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import expect

from ackline.core.clock import ManualClock
from ackline.maintenance.reaper import Reaper
from ackline.queues import Queues
from ackline.service import Settings
from ackline.service.auth.authenticator import authenticator_for
from ackline.service.runtime import Runtime
from ackline.stores.sqlite import SqliteStore
from tests.waiting import until

START = 1_900_000_000.0
"""Years from what the browser takes for today."""


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture
def dashboard(start_dashboard, tmp_path, clock):
    """A service whose store has its own time, and which sweeps when the test does."""
    store = SqliteStore(str(tmp_path / "jobs.db"), clock=clock)
    settings = Settings(store="memory://", sweep_every=0, backoff=(3600,), drain=0.0)
    return start_dashboard("", runtime=Runtime(settings, store, authenticator_for(settings, store)))


@pytest.fixture
def claimed(dashboard):
    """A job leased for thirty seconds."""
    queue = Queues(dashboard.runtime.store, "default")["mail"]
    queue.enqueue({"to": "ann"}, id="mail-1")
    return queue, queue.claim(1, lease=30)[0]


class TestByTheStoresClock:
    @pytest.fixture
    def page(self, open_tab, dashboard, claimed):
        """The browser's clock is wrong, and only moves in steps."""
        # A clock belongs to all tabs of a context: this one has its own.
        page = open_tab("", timezone_id="UTC")
        page.clock.install(time=0)
        page.goto(f"{dashboard.url}/queues/mail/processing")
        return page

    def pass_time(self, page, clock, seconds):
        for _ in range(seconds):
            clock.advance(1)
            page.clock.run_for(1000)

    def remaining(self, page):
        return page.locator('[data-id="mail-1"] [role=cell]').last

    def holds_soon(self, page, condition):
        """Whether the condition holds; the time of the page only passes in steps."""
        page.clock.run_for(250)
        return condition()

    def test_counts_from_30_seconds_to_overdue_and_disappears(self, page, clock, claimed):
        seen = []
        for at in range(0, 30, 5):
            expect(self.remaining(page)).to_have_text(f"{30 - at}s")
            seen.append(at)
            self.pass_time(page, clock, 5)

        # then: at zero it says so, in red
        expect(page.get_by_text("Overdue")).to_be_visible()
        color = page.get_by_text("Overdue").evaluate("node => getComputedStyle(node).color")
        assert color == "rgb(196, 38, 46)"
        assert seen == [0, 5, 10, 15, 20, 25]

        # and when the sweep has taken the job back, its row leaves
        Reaper([claimed[0]], 1.0).step()
        row = page.locator('[data-id="mail-1"]')
        until(lambda: self.holds_soon(page, lambda: row.count() == 0))

    def test_an_extended_lease_jumps_up(self, page, clock, claimed):
        queue, job = claimed
        self.pass_time(page, clock, 20)
        expect(self.remaining(page)).to_have_text("10s")

        queue.extend(job, 60)
        jumped = re.compile(r"(60|59|58)s")
        until(
            lambda: self.holds_soon(
                page, lambda: jumped.fullmatch(self.remaining(page).inner_text())
            )
        )


def test_in_real_time_a_row_leaves_within_a_second_of_the_sweep(
    start_dashboard, store_url, open_tab
):
    # given: a job that nobody will settle, with a lease of two seconds
    dashboard = start_dashboard(store_url)
    dashboard["mail"].enqueue({}, id="slow", backoff=[60])
    page = open_tab(f"{dashboard.url}/queues/mail/processing")
    expect(page.locator("[data-connection=live]")).to_be_visible()
    dashboard["mail"].claim(1, lease=2)

    # when
    row = page.locator('[data-id="slow"]')
    expect(row.get_by_text(re.compile(r"^[12]s$"))).to_be_visible()
    until(lambda: dashboard["mail"].status("slow").state != "processing")
    swept = time.monotonic()
    expect(row).to_have_count(0)

    # then
    assert time.monotonic() - swept < 1.0
