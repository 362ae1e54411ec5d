"""The pictures of the documentation: taken from the real dashboard by `tools/screenshots`."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ackline.core.clock import ManualClock
from ackline.service import Settings
from ackline.service.auth.authenticator import authenticator_for
from ackline.service.runtime import Runtime
from ackline.spark.reports.html_page import render_page
from ackline.stores.sqlite import SqliteStore
from tests.dashboard.sample_shop import MINUTES, Shop
from tests.service.views.gold_tables import make_gold
from tests.spark.support.sample_report import HOUR, MONDAY, WEEK, shop_report

pytestmark = pytest.mark.slow

PICTURES = {
    "overview": "/",
    "processing": "/queues/images/processing",
    "failed": "/queues/email/failed",
    "job": "/queues/invoices/failing",
    "workers": "/workers",
    "analytics": "/analytics",
}
"""What is shown, and where."""
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 375, "height": 740}

LARGEST = 120_000
"""Bytes of a picture that a page may carry."""

TO_WEBP = """async png => {
  const image = await createImageBitmap(await (await fetch(png)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").drawImage(image, 0, 0);
  const packed = await canvas.convertToBlob({type: "image/webp", quality: 0.9});
  const bytes = new Uint8Array(await packed.arrayBuffer());
  return btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(""));
}"""


@pytest.fixture
def shop(start_dashboard, tmp_path):
    clock = ManualClock(1_794_823_200.0)
    store = SqliteStore(str(tmp_path / "jobs.db"), clock=clock)
    lake = tmp_path / "lake"
    make_gold(lake, read_at=clock.now() + MINUTES * 60 - 8)
    settings = Settings(store="memory://", maintenance=False, drain=0.0, lake=str(lake))
    runtime = Runtime(settings, store, authenticator_for(settings, store))
    dashboard = start_dashboard("", runtime=runtime)
    Shop(store, clock).run()
    return dashboard


@pytest.fixture
def folder(tmp_path):
    return Path(os.environ.get("ACKLINE_SCREENSHOTS", tmp_path))


def take(tab, file):
    png = base64.b64encode(tab.screenshot()).decode()
    blank = tab.context.new_page()
    packed = blank.evaluate(TO_WEBP, f"data:image/png;base64,{png}")
    blank.close()
    file.write_bytes(base64.b64decode(packed))
    assert 2000 < file.stat().st_size < LARGEST


def settle(tab, url):
    tab.goto(url)
    expect(tab.get_by_role("heading", level=1)).to_be_visible()
    expect(tab.locator("[data-connection=live]")).to_be_visible()
    tab.wait_for_timeout(800)


def zoom_in(tab, name):
    if name == "failed":
        tab.locator("summary").first.click()
    if name == "job":
        tab.locator("[data-id]").first.get_by_role("link").click()
        expect(tab.get_by_text("Attempt 1")).to_be_visible()
    if name == "analytics":
        expect(tab.get_by_role("row", name="ConnectionError")).to_be_visible()
    if name == "workers":
        tab.locator("summary").first.click()
    tab.wait_for_timeout(300)


TOUR = 75
"""Seconds after which the demo has shown most of what it has."""


@pytest.fixture
def tour(tmp_path):
    """The demo, as it looks after a minute."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "ackline", "demo", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with demo:
        assert demo.stdout is not None
        url = next(line.split()[-1] for line in demo.stdout if line.startswith("dashboard"))
        threading.Thread(target=demo.stdout.read, daemon=True).start()
        time.sleep(TOUR)
        yield url.rstrip("/")
        demo.terminate()
        assert demo.wait(30) == 0


def test_the_tour(tour, open_tab, folder):
    for theme in ("light", "dark"):
        tab = open_tab("", viewport=DESKTOP, color_scheme=theme, timezone_id="UTC")
        settle(tab, f"{tour}/")
        take(tab, folder / f"dashboard-tour-{theme}.webp")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures(shop, open_tab, folder, theme):
    tab = open_tab("", viewport=DESKTOP, color_scheme=theme, timezone_id="UTC")
    for name, address in PICTURES.items():
        settle(tab, shop.url + address)
        zoom_in(tab, name)
        take(tab, folder / f"dashboard-{name}-{theme}.webp")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_report(open_tab, folder, theme):
    tab = open_tab("", viewport=DESKTOP, color_scheme=theme)
    tab.set_content(render_page(shop_report(), MONDAY + WEEK * HOUR))
    take(tab, folder / f"report-{theme}.webp")


def test_on_a_phone(shop, open_tab, folder):
    tab = open_tab("", viewport=PHONE, color_scheme="light", timezone_id="UTC")
    for name in ("overview", "processing"):
        settle(tab, shop.url + PICTURES[name])
        zoom_in(tab, name)
        take(tab, folder / f"dashboard-{name}-phone.webp")
