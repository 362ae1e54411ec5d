"""Logs: one line per record, no secrets, and no forged lines."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import httpx
import pytest
from tests.service.auth.issuers import Signer, key_set
from tests.service.conftest import SOURCE

from ackline.cli.app import run
from ackline.logs import JsonLines, TextLines, escape_control_characters, redact_secrets
from ackline.service.auth.permissions import Scope

SETTINGS = """
[[issuers]]
issuer = "https://login.example.com/"
audience = "ackline"
algorithm = "RS256"
jwks = "{jwks}"

[webhooks]
networks = ["127.0.0.0/8"]
plain_http = true
backoff = [0.1]
timeout = 1
"""


def record(message: str, *args: object, error: bool = False) -> logging.LogRecord:
    try:
        raise ValueError("hidden in whsec_c2VjcmV0\r\n00:00:00 1 ERROR   made up")
    except ValueError:
        info = sys.exc_info() if error else None
    return logging.LogRecord("ackline", logging.INFO, "x.py", 1, message, args, info)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("redis://ann:s3cret@db:6379/0 is down", "s3cret"),
        ("postgresql://ann:p%40ss-w0rd@db/x", "p%40ss-w0rd"),
        ("Authorization: Bearer abc.def", "abc.def"),
        ("'authorization': 'bearer ABCDEF'", "ABCDEF"),
        ("key ack_0123456789abcdef_QWERTY-uiop_1 refused", "QWERTY-uiop_1"),
        ("secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("got eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.sig-1", "eyJzdWIiOiJhbm4ifQ"),
        ("GET /api/v1/events/stream?ticket=abc123&x=1", "abc123"),
        ('{"password": "hunter2", "a": 1}', "hunter2"),
        ("token=xyz789", "xyz789"),
    ],
)
def test_a_secret_is_left_out(text, secret):
    assert secret not in redact_secrets(text)
    for formatter in (TextLines(), JsonLines()):
        assert secret in text
        assert secret not in formatter.format(record("%s", text))


@pytest.mark.parametrize(
    "text",
    ["job 'a' of email: fail was rejected", "http://127.0.0.1:8000/api", "a@b:c", "tokens: 3 left"],
)
def test_other_text_stays(text):
    assert redact_secrets(text) == text


@pytest.mark.parametrize(
    "text", ["a\nb", "a\r\nb", "\x1b[31mred", "a\x00b", "a\u2028b", "a\x85b", "\x7f"]
)
def test_control_characters_are_escaped(text):
    assert escape_control_characters(text).isprintable()
    assert escape_control_characters(text) != text
    output = TextLines().format(record("from %s", text))
    assert output.isprintable()
    line = JsonLines().format(record("from %s", text))
    assert line.isprintable()
    assert json.loads(line)["message"] == f"from {text}"


def test_a_traceback_is_indented_and_hides_secrets():
    first, *rest = TextLines().format(record("it failed", error=True)).splitlines()
    assert first.endswith("it failed")
    assert all(line.startswith("    ") for line in rest)
    assert "c2VjcmV0" not in "".join(rest)
    assert "c2VjcmV0" not in json.loads(JsonLines().format(record("x", error=True)))["error"]


@pytest.mark.parametrize("form", ["json", pytest.param("text", marks=pytest.mark.slow)])
def test_logs_of_a_service_contain_no_secrets(serve, receiver, tmp_path, capsys, form):
    """Keys, tokens, tickets and webhook secrets, in valid and invalid calls."""
    signer = Signer()
    (tmp_path / "jwks.json").write_text(key_set(signer))
    (tmp_path / "service.toml").write_text(SETTINGS.format(jwks=tmp_path / "jwks.json"))
    store = f"sqlite:///{tmp_path / 'ackline.db'}"
    scopes = [word for scope in Scope for word in ("--scope", scope.value)]
    assert run(["token", "create", "ann", "--tenant", "acme", *scopes, "--store", store]) == 0
    key = capsys.readouterr().out.strip()
    receiver.answer = lambda _request: 500
    token, forged = signer.sign(), Signer().sign()
    process = serve("--config", "service.toml", "--stored-keys", "--log-format", form)
    secrets = [key.split("_", 2)[2], *token.split(".")[1:], *forged.split(".")[1:]]
    with httpx.Client(base_url=process.url.rstrip('"}'), timeout=10) as client:
        for shown in (key, token, forged, "ack_0123456789abcdef_wrong-key", "line\\r\\nbreak"):
            client.get("/v1/queues", headers={"authorization": f"Bearer {shown}"})
        client.headers["authorization"] = f"Bearer {key}"
        made = client.post("/v1/webhooks", json={"url": f"{receiver.url}?token=inUrl1"}).json()
        new = client.post(f"/v1/webhooks/{made['id']}/rotate", json={}).json()
        ticket = client.post("/v1/tickets").json()["ticket"]
        httpx.get(f"{client.base_url}v1/events/stream", params={"ticket": "bad-ticket-1"})
        with httpx.stream("GET", f"{client.base_url}v1/events/stream?ticket={ticket}") as stream:
            assert stream.status_code == 200
        secrets += [made["secret"], new["secret"], ticket, "bad-ticket-1", "inUrl1"]
        secrets += ["payload-secret"]
        secrets = [secret.removeprefix("whsec_") for secret in secrets]
        body = {"payload": "payload-secret", "id": "a\nb", "callback_url": receiver.url}
        client.post("/v1/queues/email/jobs", json=body)
        client.post("/v1/queues/email/jobs/a%0Ab/cancel")
        receiver.wait_for(2)

    output = process.end()

    assert "stop" in output
    assert not [secret for secret in secrets if secret in output]
    for line in output.splitlines():
        assert line.isprintable()
        assert form == "text" or isinstance(json.loads(line), dict)


def test_a_password_in_a_store_s_url_is_not_shown(tmp_path):
    command = [
        sys.executable,
        "-m",
        "ackline",
        "serve",
        "--store",
        "redis://ann:hush-1@127.0.0.1:1",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={"PYTHONPATH": str(SOURCE), "PATH": ""},
    )  # fmt: skip
    assert done.returncode != 0
    assert "127.0.0.1" in done.stderr
    assert "hush-1" not in done.stderr + done.stdout
