"""File, then environment, then flags; and the variables of similar queues."""

from __future__ import annotations

import re

import pytest

from ackline.core.errors import ConfigError
from ackline.service.auth.authenticator import authenticator_for
from ackline.service.settings import Settings, load
from ackline.stores.registry import store_from_url

MEMORY = store_from_url("memory://")


def test_the_later_wins(tmp_path):
    file = tmp_path / "service.toml"
    file.write_text('port = 1001\nlease = 11\nbase_path = "/x"\n')

    settings = load(file, {"ACKLINE_LEASE": "12", "ACKLINE_PORT": "1002"}, {"port": 1003})

    assert (settings.port, settings.lease, settings.base_path) == (1003, 12.0, "/x")
    assert load(file, {}, {"port": None}).port == 1001


def test_compatible_variables_are_read():
    settings = load(
        environment={
            "ACK_TIMEOUT_SECONDS": "60",
            "MAX_ATTEMPTS": "7",
            "REQUEUE_BATCH_SIZE": "50",
            "OVERDUE_CHECK_INTERVAL_MS": "2500",
        }
    )

    assert (settings.lease, settings.max_attempts) == (60, 7)
    assert (settings.sweep_batch, settings.sweep_every) == (50, 2.5)
    assert settings.defaults.lease == 60
    assert settings.defaults.max_attempts == 7


def test_names_of_a_manifest_are_in_milliseconds(tmp_path):
    file = tmp_path / "service.toml"
    file.write_text("[queue]\nlockDuration = 45000\ncleanupInterval = 0\n")

    settings = load(file, {})

    assert (settings.lease, settings.sweep_every) == (45.0, 0)


def test_the_default_schedule_makes_3_retries():
    assert load(environment={}).defaults.backoff.delays == (1.0, 5.0, 10.0)
    assert load(environment={}).defaults.max_attempts == 1 + 3


def test_a_list_of_delays_also_sets_the_number_of_attempts(tmp_path):
    file = tmp_path / "service.toml"
    file.write_text("backoff = [1, 5, 30, 60, 300]")

    assert load(file, {}).defaults.max_attempts == 1 + 5
    assert load(file, {"MAX_ATTEMPTS": "2"}).defaults.max_attempts == 2


MANIFEST_OF_ANOTHER_PROGRAM = """
name: keyval
queue:
  cleanupInterval: 60000  # 60 seconds (default)
  lockDuration: 45000     # 45 seconds
"""


def test_lock_duration_is_configurable_in_manifest_yaml(tmp_path):
    file = tmp_path / "manifest.yaml"
    file.write_text(MANIFEST_OF_ANOTHER_PROGRAM)

    assert load(file, {}) == Settings(lease=45.0, sweep_every=60.0)


def test_cleanup_interval_0_disables_automatic_cleanup(tmp_path):
    file = tmp_path / "manifest.yaml"
    file.write_text("queue:\n  cleanupInterval: 0\n")

    assert load(file, {}).sweep_every == 0


def test_another_yaml_file_has_all_settings(tmp_path):
    file = tmp_path / "service.yml"
    file.write_text("port: 1001\nbackoff: [1, 5]\nqueue: {lockDuration: 45000}\n")

    assert load(file, {}) == Settings(port=1001, backoff=(1.0, 5.0), lease=45.0)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("manifest.yaml", "queue: {colour: 1}", "can only have lockDuration, cleanupInterval"),
        ("manifest.yaml", "queue:", "the section queue"),
        ("manifest.yaml", "queue: {lockDuration: soon}", "lockDuration must be a number"),
        ("manifest.yaml", "queue: {lockDuration: 0}", "lease must be above 0"),
        ("manifest.yaml", "- queue", "not list"),
        ("manifest.yaml", "queue: {", "not valid YAML"),
        ("service.yaml", "colour: 1", "`colour`"),
    ],
)
def test_an_invalid_yaml_file(tmp_path, name, text, message):
    file = tmp_path / name
    file.write_text(text)

    with pytest.raises(ConfigError, match=re.escape(name)) as refused:
        load(file, {})
    assert message in str(refused.value)


def test_without_an_interval_there_are_no_sweeps(tmp_path):
    from ackline.service.background.loops import BackgroundLoops

    def loops(**settings):
        background = BackgroundLoops(store_from_url("memory://"), Settings(**settings))
        return [loop.name for loop in background.loops]

    assert "sweeper" in loops()
    assert "sweeper" not in loops(sweep_every=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = 70000", "port must be"),
        ('port = "no"', "port"),
        ("colour = 1", "`colour`"),
        ("port = ", "not valid TOML"),
        ("[queue]\ncolour = 1", "lockDuration"),
        ("[queue]\nlockDuration = true", "lockDuration must be a number"),
        ('base_path = "api"', "base_path"),
    ],
)
def test_an_invalid_file(tmp_path, text, message):
    file = tmp_path / "service.toml"
    file.write_text(text)

    with pytest.raises(ConfigError, match=r"service\.toml") as refused:
        load(file, {})
    assert message in str(refused.value)


@pytest.mark.parametrize("value", ["x", "0", "-1", "nan", ""])
def test_an_invalid_variable(value):
    with pytest.raises(ConfigError):
        load(environment={"ACK_TIMEOUT_SECONDS": value})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_auth(host):
    authenticator_for(Settings(host=host), MEMORY)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com", ""])
def test_another_address_without_auth_is_refused(host):
    with pytest.raises(ConfigError, match="auth"):
        authenticator_for(Settings(host=host), MEMORY)


class TestLoopback:
    @pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:80", "a.localhost"])
    def test_is_called_by_loopback_names(self, api, host):
        api("GET", "/queue/stats", headers={"host": host})

    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1"])
    def test_is_not_called_by_dns_rebinding(self, api, host):
        api("GET", "/queue/stats", 403, headers={"host": host})

    def test_is_not_called_by_pages_of_other_sites(self, api):
        api("GET", "/queue/poll", 403, headers={"sec-fetch-site": "cross-site"})
        api("GET", "/queue/poll", headers={"sec-fetch-site": "same-origin"})
