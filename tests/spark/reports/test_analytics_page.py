"""The analytics page in a real browser, on a lake that Spark has made: it shows the gold tables."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import pytest
from playwright.sync_api import expect, sync_playwright
from tests.dashboard.browser import launch
from tests.dashboard.conftest import Dashboard

from ackline.service import Settings
from ackline.service.runtime import Runtime

SOON = 20_000
"""Milliseconds: far more than a page takes on a busy machine."""


@pytest.fixture(scope="module")
def dashboard(sample_lake):
    settings = Settings(store=sample_lake.url, lake=sample_lake.path, maintenance=False, drain=0.0)
    dashboard = Dashboard(Runtime.from_settings(settings))
    yield dashboard
    dashboard.stop()


@pytest.fixture(scope="module")
def page(dashboard):
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1280, "height": 900}, locale="en-GB")
        page.goto(f"{dashboard.url}/analytics")
        expect(page.get_by_role("table", name="Workers")).to_be_visible(timeout=SOON)
        yield page
        browser.close()


def cells(page, table):
    """What a table of the page says, row by row, without its head."""
    rows = page.get_by_role("table", name=table).get_by_role("row").all()
    return [row.get_by_role("cell").all_inner_texts() for row in rows[1:]]


def share(part):
    return f"{math.floor(part * 10_000) / 100:.2f} %"


def test_objectives(page, sample_lake):
    deliveries, kept = Counter[str](), defaultdict[str, float](float)
    for row in sample_lake.gold("slo"):
        deliveries[row["queue"]] += row["deliveries"]
        kept[row["queue"]] += row["attained"] * row["deliveries"]

    shown = {
        queue: (number, attained) for queue, _, _, number, attained in cells(page, "Objectives")
    }

    assert shown == {
        queue: (f"{number:,}", share(kept[queue] / number)) for queue, number in deliveries.items()
    }


def test_errors(page, sample_lake):
    jobs = Counter[tuple[str, str]]()
    for row in sample_lake.gold("errors"):
        jobs[row["queue"], row["exception"] or ""] += row["jobs"]

    shown = Counter[tuple[str, str]]()
    for error, queue, number, *_ in cells(page, "Errors in the DLQ"):
        shown[queue, error.split("\n")[0]] += int(number)

    assert shown == jobs
    assert jobs


def test_workers(page, sample_lake):
    deliveries, stalled = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in sample_lake.gold("workers"):
        deliveries[row["worker"], row["queue"]] += row["deliveries"]
        stalled[row["worker"], row["queue"]] += row["stalled"]

    shown = {
        (worker, queue): (number, lost, reliability)
        for worker, queue, number, _, lost, reliability in cells(page, "Workers")
    }

    assert shown == {
        key: (f"{number:,}", str(stalled[key]), share(1 - stalled[key] / number))
        for key, number in deliveries.items()
    }


def test_the_hours_that_are_drawn(page, dashboard, sample_lake):
    names = ("enqueued", "completed", "failed", "stalled")
    drawn = dashboard.api.get("/v1/analytics", days=7)["hours"]
    gold = defaultdict[float, Counter[str]](Counter)
    for row in sample_lake.gold("hourly"):
        gold[row["hour"].timestamp()].update({name: row[name] for name in names})

    assert {hour["at"]: Counter({name: hour[name] for name in names}) for hour in drawn} == gold
    # How many hours the history touches depends on when it began; few of them are told in words.
    line = page.get_by_role("img", name="Jobs per hour")
    words = page.get_by_text("The latest hour.").first
    expect(line if len(drawn) > 2 else words).to_be_visible()


@pytest.mark.parametrize("queue", [None, "other"])
def test_the_quantiles_that_are_drawn(dashboard, sample_lake, queue):
    """Those of all that is drawn, and not one of several rows of the hour."""
    asked = {"days": 7} if queue is None else {"days": 7, "queue": queue}
    drawn = dashboard.api.get("/v1/analytics", **asked)
    whole = [
        row for row in sample_lake.gold("latency") if row["queue"] == queue and row["kind"] is None
    ]

    assert {hour["at"]: hour["wait_p50"] for hour in drawn["hours"]} == {
        row["hour"].timestamp(): row["wait_p50"] for row in whole
    }
    assert all(row["tenant"] == "default" for row in whole)
    assert drawn["as_of"] == sample_lake.lake.require().read_at


def test_another_lake_would_be_noticed(page, sample_lake):
    """The control: these are the figures of this lake, and of no fixed picture."""
    page.get_by_label("Queue").select_option("other")
    expect(page.get_by_role("table", name="Objectives").get_by_role("row")).to_have_count(2)
    assert {queue for queue, *_ in cells(page, "Objectives")} == {"other"}
    assert len({row["queue"] for row in sample_lake.gold("slo")}) > 1
