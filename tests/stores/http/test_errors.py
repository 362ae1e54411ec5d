"""Errors of the service's store are raised by the client as the same errors."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from ackline.core import errors
from ackline.core.errors import StoreError, StoreForbidden, StoreMismatch, StoreUnavailable
from ackline.stores.contract import Filter, KeyWrite, queue_key
from ackline.stores.http import HttpStore
from ackline.stores.http.address import read_address
from ackline.stores.http.errors import error_of

from .conftest import QUEUE, drafts

BEHIND = [
    errors.StoreFull("no room"),
    errors.StoreReadOnly("a replica"),
    errors.StoreUnavailable("it is down"),
    errors.StoreMismatch("a newer schema"),
    errors.StoreError("it failed"),
    errors.InvalidName("no name"),
    errors.InvalidOption("no option"),
    errors.InvalidPayload("no payload"),
    errors.PayloadTooLarge("payload", 5, 4),
    errors.ConfigError("no setting"),
    errors.EventsDropped("queue 'mail'", "1.0", "7.0"),
    errors.KeysChanged("mail"),
]


@pytest.mark.parametrize("error", BEHIND, ids=lambda error: type(error).__name__)
def test_an_error_of_the_store_is_raised_again(error, service, store, monkeypatch):
    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr(service.runtime.store, "page", fail)

    with pytest.raises(type(error)) as caught:
        store.page(QUEUE, Filter(), None, 10)

    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert getattr(caught.value, "cursor", None) == getattr(error, "cursor", None)


def test_changed_keys_raise_their_own_error(store):
    write = KeyWrite(key=queue_key(QUEUE, "relay"), value=b"1", version=0)
    store.enqueue(QUEUE, drafts(1), [write])

    with pytest.raises(errors.KeysChanged):
        store.enqueue(QUEUE, drafts(1, start=1), [write])

    assert store.get(QUEUE, ["id1"]) == [None]


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (401, {"detail": "expired"}, StoreError, "expired.*ACKLINE_TOKEN"),
        (403, {"detail": "this needs the scope admin"}, StoreForbidden, "scope admin"),
        (404, None, StoreMismatch, "base path"),
        (302, None, StoreMismatch, "base path"),
        (429, {"detail": "slow down"}, StoreUnavailable, "slow down"),
        (502, None, StoreUnavailable, "502"),
        (500, None, StoreError, "500"),
        (418, {"type": "urn:else:store-full", "detail": "tea"}, StoreError, "tea"),
    ],
)
def test_other_responses_say_what_to_do(status, body, kind, says):
    text = json.dumps(body).encode() if body else b"<html>a proxy's words</html>"

    error = error_of("http://host/api", status, text)

    assert type(error) is kind
    with pytest.raises(kind, match=says):
        raise error


def test_a_wrong_base_path_is_named(service):
    store = HttpStore(read_address(service.url.removesuffix("/api") + "/elsewhere"))

    with pytest.raises(StoreMismatch, match="base path"):
        store.open()


@pytest.fixture
def scripted() -> Iterator[Callable[[bytes], int]]:
    """A server that reads one request and sends this response."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads = []

    def begin(answer: bytes) -> int:
        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield begin
    for thread in threads:
        thread.join()
    listener.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        b"garbage\r\n\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "no HTTP"],
)
def test_a_cut_answer_is_unavailable_and_nothing_is_sent_again(scripted, answer):
    store = HttpStore(read_address(f"http://127.0.0.1:{scripted(answer)}"))

    # The server answers one request only: another would fail to connect.
    with pytest.raises(StoreUnavailable, match=r"lost the connection|may have been done|reached"):
        store.open()


def test_a_response_that_cannot_be_decoded(scripted):
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    store = HttpStore(read_address(f"http://127.0.0.1:{scripted(answer)}"))

    with pytest.raises(StoreMismatch, match="another version"):
        store.open()
