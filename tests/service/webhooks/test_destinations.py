"""What webhooks can call: public and allowed addresses, and no others by any detour."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import make_certificate
from tests.service.webhook_receiver import Receiver

from ackline.service.webhooks.client import Unreachable, WebhookClient, WebhookResponse
from ackline.service.webhooks.destinations import (
    DestinationPolicy,
    DestinationRefused,
    Resolver,
    is_public,
)
from ackline.service.webhooks.settings import WebhookSettings

LOOPBACK = ("127.0.0.0/8", "::1/128")

INNER = """
127.0.0.1 127.1.2.3 0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 169.254.169.254 172.16.0.1
172.31.255.255 192.0.0.8 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.7
203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
:: ::1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::127.0.0.1 64:ff9b::7f00:1
64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1 2001:0:53aa:64c:0:7fff:80ff:fffe 2001:db8::1
2002:7f00:1:: 2002:a9fe:a9fe::1 3fff::1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1
"""

OUTER = """
8.8.8.8 1.1.1.1 93.184.215.14 172.15.255.255 172.32.0.1 192.167.255.255 100.63.255.255
100.128.0.1 198.17.255.255 198.20.0.1 223.255.255.255 2606:4700::1111 2a00:1450:4001::200e
2001:4860:4860::8888
"""


@pytest.mark.parametrize("address", INNER.split())
def test_an_address_that_is_not_public_is_refused(address):
    assert not is_public(ipaddress.ip_address(address))
    with pytest.raises(DestinationRefused):
        DestinationPolicy(WebhookSettings()).require_address("a.example", address)


@pytest.mark.parametrize("address", OUTER.split())
def test_an_address_that_is_public_is_not(address):
    assert is_public(ipaddress.ip_address(address))
    DestinationPolicy(WebhookSettings()).require_address("a.example", address)


def test_a_network_can_be_allowed():
    allowed = DestinationPolicy(WebhookSettings(networks=("10.1.0.0/16", "fd00::/8")))
    allowed.require_address("a.example", "10.1.2.3")
    allowed.require_address("a.example", "fd00::1")
    for other in ("10.2.0.1", "::ffff:10.1.2.3", "127.0.0.1"):
        with pytest.raises(DestinationRefused):
            allowed.require_address("a.example", other)


def test_an_invalid_network_is_refused():
    with pytest.raises(ValueError, match=r"10\.1\.2\.3/16"):
        WebhookSettings(networks=("10.1.2.3/16",))


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("http://example.com/", WebhookSettings()),
        ("https://example.com:8443/", WebhookSettings(ports=(443,))),
        ("http://example.com/", WebhookSettings(plain_http=True, ports=(443,))),
    ],
)
def test_a_scheme_and_a_port_can_be_refused(url, settings):
    with pytest.raises(DestinationRefused):
        DestinationPolicy(settings).require_url(url)


class Names:
    """A resolver that answers with the next addresses of a list."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.lookups = 0

    async def __call__(self, _host: str, _port: int) -> Sequence[str]:
        self.lookups += 1
        return self._answers.pop(0)


def post(url: str, settings: WebhookSettings, resolver: Any = None) -> WebhookResponse:
    async def send() -> WebhookResponse:
        sender = WebhookClient(settings, resolver) if resolver else WebhookClient(settings)
        try:
            return await sender.post(url, {"content-type": "application/json"}, b"{}")
        finally:
            await sender.close()

    return asyncio.run(send())


HERE = WebhookSettings(networks=LOOPBACK, plain_http=True, timeout=2.0)
NOT_HERE = WebhookSettings(plain_http=True, timeout=2.0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001"])
def test_loopback_is_not_called_in_any_notation(receiver, host):
    with pytest.raises(DestinationRefused):
        post(f"http://{host}:{receiver.port}/", NOT_HERE)
    assert receiver.received == []


@pytest.mark.parametrize("host", ["[::1]", "[::ffff:127.0.0.1]", "[::]", "0.0.0.0"])
def test_nor_by_another_address_of_this_machine(receiver, host):
    with pytest.raises(DestinationRefused):
        post(f"http://{host}:{receiver.port}/", NOT_HERE)


def test_the_same_call_arrives_where_it_is_allowed(receiver):
    """Control: the calls above are refused because of the address."""
    assert post(receiver.url, HERE).status == 200
    assert receiver.received[0].headers["host"] == f"127.0.0.1:{receiver.port}"


def test_a_name_that_changes_after_the_check_is_not_followed(receiver, monkeypatch):
    """DNS rebinding: the first answer is public, every later one is this machine."""
    names = Names(["93.184.215.14"], ["127.0.0.1"], ["127.0.0.1"])
    connected = record_connections(monkeypatch)

    with pytest.raises(Unreachable):
        post(f"http://rebind.example:{receiver.port}/", NOT_HERE, names)

    assert names.lookups == 1
    assert connected == ["93.184.215.14"]
    assert receiver.received == []


def record_connections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the addresses to connect to, without connecting."""
    connected: list[str] = []

    async def refuse(_loop: Any, _protocol: Any, host: str, *_args: Any, **_kwargs: Any) -> Any:
        connected.append(host)
        raise ConnectionRefusedError("not in this test")

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", refuse)
    return connected


def test_a_name_that_is_public_in_part_is_refused(receiver):
    names = Names(["93.184.215.14", "127.0.0.1"])
    with pytest.raises(DestinationRefused):
        post(f"http://half.example:{receiver.port}/", NOT_HERE, names)


def test_the_request_has_the_name_of_the_host(receiver):
    names = Names(["127.0.0.1"])
    assert post(f"http://hooks.example:{receiver.port}/a?b=c", HERE, names).status == 200
    [message] = receiver.received
    assert (message.headers["host"], message.path) == (f"hooks.example:{receiver.port}", "/a?b=c")


def test_the_next_address_is_tried_when_one_does_not_answer(receiver):
    names = Names(["127.0.0.2", "127.0.0.1"])
    assert post(f"http://hooks.example:{receiver.port}/", HERE, names).status == 200


def test_a_redirect_is_an_answer_and_not_followed(receiver):
    receiver.answer = lambda _request: (302, {"location": f"{receiver.url}/elsewhere"})
    assert post(receiver.url, HERE).status == 302
    assert len(receiver.received) == 1


def test_an_unresolved_name_is_retried():
    with pytest.raises(Unreachable):
        post("http://nobody.invalid/", HERE)
    with pytest.raises(Unreachable):
        post("http://nobody.example/", HERE, Names([]))


def serve_once(answer: bytes) -> tuple[socket.socket, str]:
    """A server that sends these bytes over and over."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(5)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            try:
                connection.sendall(answer)
                while True:
                    connection.sendall(b"x" * 65536)
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}/"


def test_an_endless_response_is_not_read_to_its_end():
    listener, url = serve_once(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n")
    with listener:
        assert post(url, HERE).status == 200


def test_endless_headers_are_refused():
    listener, url = serve_once(b"HTTP/1.1 200 OK\r\nx-long: ")
    with listener, pytest.raises(Unreachable):
        post(url, HERE)


def test_a_connection_is_used_again_and_too_many_are_not_kept(receiver, monkeypatch):
    monkeypatch.setattr("ackline.service.webhooks.client.MAX_POOLS", 2)

    async def send() -> list[int]:
        """The number of connections after each call."""
        sender = WebhookClient(HERE, names)
        try:
            lookups = []
            for name in "aaaaabcddca":
                await sender.post(f"http://{name}.example:{receiver.port}/", {}, b"{}")
                lookups.append(names.lookups)
            return lookups
        finally:
            await sender.close()

    names = Names(*[["127.0.0.1"]] * 10)
    assert asyncio.run(send()) == [1, 1, 1, 1, 1, 2, 3, 4, 4, 4, 5]


# --- TLS ---


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"), "hooks.example")


@pytest.fixture
def secure(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    server_names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: server_names.append(name)
    receiver = Receiver(context)
    receiver.server_names = server_names  # type: ignore[attr-defined]
    yield receiver
    receiver.close()


def test_tls_is_for_the_name_though_the_address_was_fixed(secure, certificate):
    trusting = WebhookSettings(networks=LOOPBACK, ca_file=str(certificate))
    url = f"https://hooks.example:{secure.port}/"

    assert post(url, trusting, Names(["127.0.0.1"])).status == 200
    assert secure.server_names == ["hooks.example"]


@pytest.mark.parametrize("host", ["other.example", "127.0.0.1"])
def test_a_certificate_of_another_name_is_refused(secure, certificate, host):
    trusting = WebhookSettings(networks=LOOPBACK, ca_file=str(certificate))
    with pytest.raises(Unreachable, match="certificate"):
        post(f"https://{host}:{secure.port}/", trusting, Names(["127.0.0.1"]))


def test_an_untrusted_certificate_is_refused(secure):
    url = f"https://hooks.example:{secure.port}/"
    with pytest.raises(Unreachable, match="certificate"):
        post(url, WebhookSettings(networks=LOOPBACK), Names(["127.0.0.1"]))


def test_slow_names_delay_nobody() -> None:
    answered = threading.Event()
    lookups: list[str] = []

    def look_up(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        lookups.append(host)
        if host != "known.example":
            assert answered.wait(30)
        return [(0, 0, 0, "", ("192.0.2.1", port))]

    async def resolve_all() -> None:
        resolver = Resolver(look_up, timeout=0.2)
        silent = [asyncio.ensure_future(resolver(f"{n % 100}.example", 443)) for n in range(200)]
        await asyncio.sleep(0)
        assert await resolver("known.example", 443) == ["192.0.2.1"]
        assert await asyncio.to_thread(lambda: "free") == "free"
        failures = await asyncio.gather(*silent, return_exceptions=True)
        assert {type(failure) for failure in failures} == {OSError}
        assert "could not be resolved within 0.2 s" in str(failures[0])
        assert len(lookups) == 101, "one thread for each name"
        answered.set()

    try:
        asyncio.run(resolve_all())
    finally:
        answered.set()
