"""Valid and invalid URLs; a token is never shown."""

from __future__ import annotations

from http.client import HTTPConnection

import pytest

import ackline
from ackline.core.clock import ManualClock
from ackline.core.errors import ConfigError, StoreUnavailable
from ackline.stores.http.address import Address, read_address
from ackline.stores.http.store import from_url
from ackline.stores.registry import store_from_url

SECRET = "ak_very-secret-indeed"


@pytest.mark.parametrize(
    ("url", "address", "location"),
    [
        (
            "http://localhost:8000",
            Address(host="localhost", port=8000),
            "http://localhost:8000/api",
        ),
        (
            "https://jobs.example.com/q/api/?timeout=2",
            Address(host="jobs.example.com", port=443, tls=True, base="/q/api", timeout=2.0),
            "https://jobs.example.com/q/api",
        ),
        (
            "http://[::1]:80/?plaintext=yes",
            Address(host="::1", port=80, base="", plaintext=True),
            "http://[::1]",
        ),
    ],
)
def test_a_url_names_a_service(url, address, location):
    assert read_address(url) == address
    assert address.location == location


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (f"https://{SECRET}@jobs.example.com", "token does not belong in a URL"),
        (f"https://user:{SECRET}@jobs.example.com/api", "token does not belong in a URL"),
        ("http://localhost:800000", "not a valid URL"),
        ("http://localhost/a b", "characters"),
        ("http://localhost/api?tls=no", "'tls'"),
        ("http://localhost/api?ca=x.pem", "must start with https"),
    ],
)
def test_a_mistake_is_named_and_a_token_is_not(url, says):
    with pytest.raises(ConfigError, match=says) as caught:
        read_address(url)

    assert SECRET not in str(caught.value)


def test_a_token_does_not_go_over_a_network_unencrypted():
    with pytest.raises(ConfigError, match="plaintext") as caught:
        from_url("http://jobs.example.com/api", token=SECRET)

    assert SECRET not in str(caught.value)
    from_url("http://jobs.example.com/api?plaintext=yes", token=SECRET)
    from_url("http://127.0.0.1:1/api", token=SECRET)
    from_url("https://jobs.example.com/api", token=SECRET)


def test_no_message_and_no_repr_shows_the_token():
    store = from_url("http://127.0.0.1:1/api", token=SECRET)

    with pytest.raises(StoreUnavailable, match="reached") as caught:
        store.open()

    shown = [str(caught.value), repr(caught.value), repr(store)]
    assert not any(SECRET in text for text in shown)
    with pytest.raises(ConfigError, match="token") as refused:
        from_url("https://jobs.example.com/api", token=f"{SECRET}\r\nX-Evil: 1")
    assert SECRET not in str(refused.value)


def test_the_token_may_come_from_the_environment(monkeypatch):
    sent = []

    def note(_connection, _method, _url, _body, headers):
        sent.append(headers.get("Authorization"))
        raise ConnectionResetError

    monkeypatch.setattr(HTTPConnection, "connect", lambda _connection: None)
    monkeypatch.setattr(HTTPConnection, "request", note)
    monkeypatch.setenv("ACKLINE_TOKEN", SECRET)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            from_url("http://localhost:8000").open()
        monkeypatch.delenv("ACKLINE_TOKEN", raising=False)

    assert sent == [f"Bearer {SECRET}", None]


def test_a_token_is_for_a_service_only():
    with pytest.raises(ConfigError, match="memory"):
        ackline.open("memory://", token=SECRET)


def test_the_clock_is_the_services():
    with pytest.raises(ConfigError, match="clock"):
        store_from_url("http://localhost", ManualClock())
