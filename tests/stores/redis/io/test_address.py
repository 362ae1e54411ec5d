"""Valid and invalid URLs."""

from __future__ import annotations

import traceback

import pytest

from ackline.core.errors import AcklineError, ConfigError
from ackline.stores.redis.io.address import read_address
from ackline.stores.registry import store_from_url

SECRET = "s3cr3t"


def test_hosts_ports_and_databases():
    assert read_address("redis://").hosts == (("localhost", 6379),)
    assert read_address("redis://cache:7000/3").hosts == (("cache", 7000),)
    assert read_address("redis://cache:7000/3").database == 3
    assert read_address("redis://[::1]:7000").hosts == (("::1", 7000),)
    assert read_address("redis+sentinel://a,b:7000/main").hosts == (("a", 26379), ("b", 7000))
    assert read_address("redis+sentinel://a/main/2").service == "main"
    assert read_address("redis+sentinel://a/main/2").database == 2
    assert read_address("redis+unix:///run/redis.sock?db=4").socket == "/run/redis.sock"
    assert read_address("redis+unix:///run/redis.sock?db=4").database == 4


def test_users_and_passwords_are_unquoted():
    address = read_address("rediss://ann:p%40ss%2F@cache")

    assert (address.username, address.password, address.tls) == ("ann", "p@ss/", True)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://h?durabilty=always", "no option 'durabilty'. Known: prefix, durability"),
        ("redis://h?durability=some", "durability must be none, everysec or always, not 'some'"),
        ("redis://h?prefix=", "prefix must be a name without braces, not ''"),
        ("redis://h?prefix=a{b}", "prefix must be a name without braces"),
        ("redis://h?replicas=-1", "replicas must be a whole number, not '-1'"),
        ("redis://h?replicas=many", "replicas must be a whole number, not 'many'"),
        ("redis://h?replicas=²", "replicas must be a whole number, not '²'"),
        ("redis://h?fsync=maybe", "fsync must be yes or no, not 'maybe'"),
        ("redis://h?timeout=0", "timeout must be seconds above zero and below 3600, not '0'"),
        ("redis://h?timeout=nan", "timeout must be seconds above zero and below 3600, not 'nan'"),
        ("redis://h?timeout=soon", "timeout must be seconds above zero and below 3600, not 'soon'"),
        ("redis://h/mail", "the database must be a whole number, not 'mail'"),
        ("redis://h/-1", "the database must be a whole number, not '-1'"),
        ("redis://h/²", "the database must be a whole number, not '²'"),
        ("redis://h/0/1", "'/0/1' is not a database number"),
        ("redis://h:port", "'h:port' is not a host and port"),
        ("redis://h:99999", "'h:99999' is not a host and port"),
        ("redis://[::1", "is not a valid URL"),
        ("redis+sentinel://h", "name of the primary is missing: redis+sentinel://host:26379/NAME"),
        ("redis+sentinel://h/", "name of the primary is missing: redis+sentinel://host:26379/NAME"),
        ("redis+cluster://h/3", "only has database 0: remove the number"),
        ("redis+cluster://h?replicas=1", "not available in a cluster: remove the option"),
        ("redis+cluster://h?fsync=yes", "not available in a cluster: remove the option"),
        ("redis+unix://", "redis+unix:///path/to/redis.sock"),
        ("redis+unix://h/redis.sock", "redis+unix:///path/to/redis.sock"),
        ("redis+unix:///redis.sock?db=x", "db must be a whole number, not 'x'"),
    ],
)
def test_an_invalid_url(url, words):
    with pytest.raises(ConfigError) as refusal:
        read_address(url)

    assert words in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{SECRET}@h?nope=1",
        f"redis://:{SECRET}@h/x",
        f"redis://ann:{SECRET}@h:port",
        f"redis+cluster://:{SECRET}@h/3",
        f"redis+sentinel://:{SECRET}@h",
        f"redis+unix://:{SECRET}@h/x",
        f"rediz://:{SECRET}@h",
        # Not percent-encoded, the password ends where the URL says it does.
        f"redis://:{SECRET}/@h:6379",
        f"redis://:/{SECRET}@h:6379",
        f"redis://:{SECRET}#@h:6379",
        f"redis://:{SECRET}?@h:6379",
        f"redis://:{SECRET}[@h:6379",
    ],
)
def test_no_error_contains_the_password(url):
    with pytest.raises(AcklineError) as refusal:
        store_from_url(url)

    assert SECRET not in "".join(traceback.format_exception(refusal.value))


def test_an_address_does_not_show_its_password():
    address = read_address(f"redis://ann:{SECRET}@h")

    assert address.password == SECRET
    assert SECRET not in f"{address} {address!r}"
