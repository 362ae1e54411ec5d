"""`ackline webhook …`: made, listed, rotated and deleted; a secret is shown when it is made."""

from __future__ import annotations


def test_the_secret_of_a_webhook_is_shown_once(cli):
    made = cli("webhook", "create", "https://example.com/hook", "--to", "failed", "--queue", "pay")
    assert made.out.startswith("whsec_")

    listed = cli("webhook", "list")

    assert "https://example.com/hook" in listed.out
    assert "failed, pay" in listed.out
    assert "whsec_" not in listed.out + listed.err
    [document] = cli("webhook", "list", "--json").documents
    assert (document["states"], document["queues"], document["acts"]) == (["failed"], ["pay"], None)


def test_rotating_creates_a_new_secret(cli):
    [made] = cli("webhook", "create", "https://example.com/hook", "--json").documents
    [rotated] = cli("webhook", "rotate", made["id"], "--overlap", "1h", "--json").documents
    assert rotated["secret"] != made["secret"]
    assert cli("webhook", "rotate", "callbacks").out.startswith("whsec_")
    assert cli("webhook", "rotate", "wh_x").code == 1


def test_webhooks_belong_to_a_tenant(cli):
    [made] = cli(
        "webhook", "create", "https://example.com/", "--tenant", "acme", "--json"
    ).documents
    assert cli("webhook", "list").out == "No webhooks.\n"
    assert cli("webhook", "delete", made["id"]).code == 1
    assert cli("webhook", "delete", made["id"], "--tenant", "acme").code == 0
    assert cli("webhook", "list", "--tenant", "acme").out == "No webhooks.\n"


def test_invalid_webhooks_are_rejected(cli):
    for url in ("ftp://example.com/", "https://ann:secret@example.com/", "http://example.com/"):
        refused = cli("webhook", "create", url)
        assert refused.code != 0
        assert "secret@" not in refused.err
    assert cli("webhook", "create", "https://example.com/", "--act", "explode").code != 0
    assert cli("webhook", "create", "https://example.com/").code == 0
    assert cli("webhook", "delete", "callbacks").code == 1


def test_limits_are_those_of_the_services_settings(cli, tmp_path):
    config = tmp_path / "ackline.toml"
    config.write_text("[webhooks]\nplain_http = true\nmax_webhooks = 1\n")
    settings = ["--config", str(config)]

    assert cli("webhook", "create", "http://example.com/", *settings).code == 0
    refused = cli("webhook", "create", "http://example.com/", *settings)

    assert refused.code == 1
    assert "delete one first" in refused.err
