"""Issuers of JWTs for tests, and forgeries of attackers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from ackline.service.auth.credentials import Issuer

NAME = "https://login.example.com/"
AUDIENCE = "ackline"
EVERYTHING = "produce consume read admin"


class Signer:
    """An issuer with one RSA key."""

    def __init__(self, kid: str = "one") -> None:
        self.kid = kid
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.public_pem = self.private.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )

    @property
    def jwk(self) -> dict[str, Any]:
        described: dict[str, Any] = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**described, "kid": self.kid, "use": "sig", "alg": "RS256"}

    def sign(self, *without: str, header: dict[str, Any] | None = None, **claims: Any) -> str:
        payload = {
            name: value for name, value in claims_of(**claims).items() if name not in without
        }
        headers = {"kid": self.kid, **(header or {})}
        return jwt.encode(payload, self.private, "RS256", headers=headers)


def claims_of(**claims: Any) -> dict[str, Any]:
    """The claims of a valid token, with changes."""
    return {
        "iss": NAME,
        "aud": AUDIENCE,
        "exp": int(time.time()) + 600,
        "sub": "ann",
        "tenant": "acme",
        "scope": EVERYTHING,
        **claims,
    }


def unsigned(claims: dict[str, Any], header: dict[str, Any]) -> str:
    """The signed part of a token."""
    return f"{_base64(json.dumps(header).encode())}.{_base64(json.dumps(claims).encode())}"


def with_none(word: str = "none") -> str:
    """A token with the algorithm `none`."""
    return unsigned(claims_of(), {"alg": word, "typ": "JWT", "kid": "one"}) + "."


def signed_with_public_key(signer: Signer) -> str:
    """A token signed with the issuer's public key as if it were a shared secret."""
    text = unsigned(claims_of(), {"alg": "HS256", "typ": "JWT", "kid": signer.kid})
    signature = hmac.new(signer.public_pem, text.encode(), hashlib.sha256).digest()
    return f"{text}.{_base64(signature)}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def issuer(**settings: Any) -> Issuer:
    return Issuer(issuer=NAME, audience=AUDIENCE, algorithm="RS256", **settings)


def key_set(*signers: Signer) -> str:
    return json.dumps({"keys": [signer.jwk for signer in signers]})


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
