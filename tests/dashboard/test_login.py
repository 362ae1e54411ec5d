"""Where the service wants to know who calls."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from ackline.service.auth.api_keys import new_key, store_key
from ackline.service.auth.credentials import ApiKey, hash_of
from ackline.service.auth.permissions import Scope


@pytest.fixture
def dashboard(start_dashboard, store_url):
    dashboard = start_dashboard(store_url, stored_keys=True)
    dashboard["mail"].enqueue({"to": "ann"}, id="a")
    return dashboard


@pytest.fixture
def key_for(dashboard):
    """A new API key with these scopes: what to show, and its id."""

    def make(*scopes):
        text, id = new_key()
        key = ApiKey(
            id=id, hash=hash_of(text), name="ops", tenant="default", scopes=frozenset(scopes)
        )
        store_key(dashboard.runtime.store, key)
        return text, id

    return make


def sign_in(tab, text):
    tab.get_by_label("API key or token").fill(text)
    tab.get_by_role("button", name="Sign in").click()


def test_a_key_opens_the_page_and_its_stream(dashboard, open_tab, key_for):
    tab = open_tab(f"{dashboard.url}/queues/mail")
    sign_in(tab, "ack_nonsense")
    expect(tab.get_by_role("alert")).to_contain_text("Sign-in failed")

    text, _ = key_for(*Scope)
    sign_in(tab, text)
    expect(tab.locator("[data-id=a]")).to_be_visible()
    expect(tab.locator("[data-connection=live]")).to_be_visible()
    dashboard["mail"].enqueue(1, id="b")
    expect(tab.locator("[data-id=b]")).to_be_visible()

    # and it is in no address, and not kept beyond this tab
    assert text not in tab.evaluate("JSON.stringify(localStorage) + location.href")
    tab.reload()
    expect(tab.locator("[data-id=b]")).to_be_visible()


def test_acts_are_recorded_with_the_callers_name(dashboard, open_tab, key_for):
    tab = open_tab(f"{dashboard.url}/queues/mail/jobs/a")
    sign_in(tab, key_for(*Scope)[0])
    tab.get_by_role("button", name="More actions").click()
    tab.get_by_role("menuitem", name="Cancel").click()
    expect(tab.get_by_text("Cancelled a")).to_be_visible()

    (event,) = [one for one in dashboard["mail"].events() if one.act == "cancel"]
    assert event.by == "ops"


def test_who_may_only_read_sees_no_buttons_and_is_refused_anyway(dashboard, open_tab, key_for):
    text, _ = key_for(Scope.READ)
    tab = open_tab(f"{dashboard.url}/queues/mail")
    sign_in(tab, text)
    expect(tab.locator("[data-id=a]")).to_be_visible()

    for name in ("Enqueue", "Pause", "Edit", "Cancel", "Delete"):
        expect(tab.get_by_role("button", name=name)).to_have_count(0)
    expect(tab.get_by_role("checkbox")).to_have_count(0)
    tab.locator("[data-id=a]").get_by_role("link").click()
    expect(tab.get_by_role("heading", name="Payload")).to_be_visible()
    expect(tab.get_by_role("button", name="More actions")).to_have_count(0)
    answer = dashboard.client.post(
        "/api/v1/queues/mail/jobs/a/cancel", headers={"authorization": f"Bearer {text}"}
    )
    assert answer.status_code == 403
