"""An issuer of JWTs in a directory, for development and tests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from jwt.algorithms import OKPAlgorithm

ISSUER = "urn:ackline:test-issuer"
AUDIENCE = "ackline"
KEY_ID = "test"
ALGORITHM = "EdDSA"


class KeyPair:
    """A private key in a file that only its owner can read, and a JWKS with its public key."""

    def __init__(self, directory: Path, key: Any) -> None:
        self._directory = directory
        self._key = key

    @classmethod
    def at(cls, directory: Path) -> Self:
        """The key pair of a directory, created if it has none."""
        file = directory / "private.pem"
        if not file.exists():
            directory.mkdir(parents=True, exist_ok=True)
            _write_new(file, Ed25519PrivateKey.generate())
        pair = cls(directory, load_pem_private_key(file.read_bytes(), None))
        pair._write_set()
        return pair

    def _write_set(self) -> None:
        described = OKPAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        keys = [{**described, "kid": KEY_ID, "use": "sig", "alg": ALGORITHM}]
        (self._directory / "jwks.json").write_text(json.dumps({"keys": keys}, indent=2) + "\n")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of this issuer for the service."""
        return {
            "issuer": ISSUER,
            "audience": AUDIENCE,
            "algorithm": ALGORITHM,
            "jwks": str((self._directory / "jwks.json").absolute()),
            "operators": True,
        }

    def sign(self, claims: dict[str, Any], expires_at: float) -> str:
        """A signed JWT with these claims."""
        payload = {"iss": ISSUER, "aud": AUDIENCE, "sub": "test", "exp": int(expires_at), **claims}
        return jwt.encode(payload, self._key, ALGORITHM, headers={"kid": KEY_ID})


def _write_new(file: Path, key: Ed25519PrivateKey) -> None:
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(text)
