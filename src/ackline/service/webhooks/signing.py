"""Signatures of messages, as in Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

import msgspec

PREFIX = "whsec_"
"""The prefix of every secret, by which people and secret scanners recognize one."""

LENGTH = 32


class Secret(msgspec.Struct, frozen=True, omit_defaults=True):
    """The secret of a webhook; a replaced one stays valid until `until`."""

    text: str
    until: float | None = None

    def is_valid(self, now: float) -> bool:
        """Whether messages are still signed with it."""
        return self.until is None or now < self.until

    def __repr__(self) -> str:
        return "Secret(…)"


def new_secret() -> Secret:
    """A new random secret."""
    return Secret(PREFIX + base64.b64encode(secrets.token_bytes(LENGTH)).decode())


def rotate(known: Iterable[Secret], now: float, overlap: float) -> tuple[Secret, ...]:
    """A new secret, and the previous one for `overlap` more seconds; never more than two."""
    newest = next(iter(known), None)
    if newest is None or not overlap:
        return (new_secret(),)
    return new_secret(), Secret(newest.text, now + overlap)


def headers(id: str, at: float, body: bytes, known: Iterable[Secret]) -> dict[str, str]:
    """The headers of a message: its id, its time, and a signature by each valid secret."""
    timestamp = str(int(at))
    signed = b".".join([id.encode(), timestamp.encode(), body])
    signatures = [_signature(secret, signed) for secret in known if secret.is_valid(at)]
    return {
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(signatures),
    }


def _signature(secret: Secret, signed: bytes) -> str:
    key = base64.b64decode(secret.text.removeprefix(PREFIX))
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
