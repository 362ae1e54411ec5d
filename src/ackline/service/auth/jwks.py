"""The public keys of an issuer: fetched off the event loop, kept, and fetched again when due."""

from __future__ import annotations

import asyncio
import http.client
import logging
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import jwt
import msgspec

from ackline.core.errors import ConfigError
from ackline.service.auth.credentials import Algorithm, Issuer
from ackline.service.http.problems import ProblemError

logger = logging.getLogger("ackline.service")

REFRESH_AFTER = 300.0
"""Seconds after which the next request for a key fetches the set again."""

MIN_FETCH_INTERVAL = 30.0
"""Least seconds between two fetches, however many made-up tokens name unknown keys."""

MAX_AGE = 86_400.0
"""Seconds for which a set is trusted while it cannot be fetched again."""

FETCH_TIMEOUT = 5.0
MAX_BYTES = 1024 * 1024

KEY_TYPES: dict[Algorithm, tuple[str, str | None]] = {
    "EdDSA": ("OKP", "Ed25519"),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
}
"""The type and the curve of the keys that verify signatures of an algorithm."""

MIN_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Bytes; a shorter secret can be guessed from a token."""

FETCH_ERRORS = (OSError, ValueError, RecursionError, http.client.HTTPException)
"""The errors that fetching and reading a set can raise."""


class KeysUnavailable(ProblemError):
    """The keys that verify tokens could not be fetched."""

    status = 503
    type = "auth-unavailable"


class KeySource(Protocol):
    """Finds the key that a token says it is signed with."""

    async def find(self, kid: str | None) -> Any | None: ...


class StaticKey:
    """One key, whatever `kid` a token names."""

    def __init__(self, key: Any) -> None:
        self._key = key

    async def find(self, kid: str | None) -> Any | None:  # noqa: ARG002
        return self._key


class JwksKeys:
    """The keys behind a URL or in a file, by their `kid`."""

    def __init__(
        self, issuer: Issuer, source: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer = issuer
        self._source = source
        self._monotonic = monotonic
        self._keys: dict[str | None, Any] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def find(self, kid: str | None) -> Any | None:
        """The key with this `kid`; without a `kid`, the only key of the set."""
        known = self._pick(kid) is not None
        # The first request to find the set old fetches it; the others go on with the old key.
        if not known or (self._age > REFRESH_AFTER and not self._fetching.locked()):
            await self._refetch(kid)
        if self._age > MAX_AGE:
            raise KeysUnavailable("the keys that tokens are checked with cannot be had")
        return self._pick(kid)

    @property
    def _age(self) -> float:
        return self._monotonic() - self._fetched_at

    def _pick(self, kid: str | None) -> Any | None:
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    async def _refetch(self, kid: str | None) -> None:
        async with self._fetching:
            if self._age <= REFRESH_AFTER and self._pick(kid) is not None:
                return  # someone else has just fetched it
            if self._monotonic() - self._tried_at < MIN_FETCH_INTERVAL:
                return
            self._tried_at = self._monotonic()
            try:
                text = await asyncio.to_thread(fetch, self._source)
                self._keys = parse_jwks(text, self._issuer.algorithm)
            except FETCH_ERRORS as error:
                # Not the error's text: it may quote what was read.
                fault = type(error).__name__
                logger.warning("the keys of %s cannot be had: %s", self._issuer.issuer, fault)
            else:
                self._fetched_at = self._monotonic()


def fetch(source: str) -> bytes:
    """The bytes of a set; redirects are not followed, because they may lead anywhere."""
    if "://" not in source:
        return Path(source).read_bytes()
    with _opener.open(source, timeout=FETCH_TIMEOUT) as answer:
        text: bytes = answer.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ValueError("too long")
    return text


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_request: Any, **_more: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def parse_jwks(text: bytes, algorithm: Algorithm) -> dict[str | None, Any]:
    """The keys of a set that verify signatures of this algorithm, by `kid`."""
    described = msgspec.json.decode(text, type=dict[str, Any]).get("keys")
    if not isinstance(described, list):
        raise ValueError("not a set of keys")
    usable = [key for key in described if isinstance(key, dict) and _is_usable(key, algorithm)]
    return {key.get("kid"): _public_key(key, algorithm) for key in usable}


def _is_usable(key: dict[str, Any], algorithm: Algorithm) -> bool:
    kind, curve = KEY_TYPES[algorithm]
    return (
        key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and isinstance(key.get("kid"), str | None)
    )


def _public_key(described: dict[str, Any], algorithm: Algorithm) -> Any:
    public = {name: value for name, value in described.items() if name != "d"}
    try:
        return jwt.PyJWK(public, algorithm).key
    except jwt.PyJWTError:
        raise ValueError("a key that cannot be read") from None


def key_source_for(issuer: Issuer) -> KeySource:
    """Where an issuer's keys come from; a file that cannot be used is refused now."""
    if issuer.jwks is not None:
        if "://" not in issuer.jwks:
            _require_readable(issuer, issuer.jwks)
        return JwksKeys(issuer, issuer.jwks)
    return StaticKey(_static_key(issuer, Path(issuer.key_file or "")))


def _require_readable(issuer: Issuer, source: str) -> None:
    try:
        parse_jwks(fetch(source), issuer.algorithm)
    except FETCH_ERRORS:
        raise ConfigError(
            f"issuer {issuer.issuer}: {source} cannot be read as a set of keys (JWKS)"
        ) from None


def _static_key(issuer: Issuer, file: Path) -> Any:
    try:
        text = file.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"issuer {issuer.issuer}: {file}: {error.strerror}") from None
    least = MIN_SECRET_BYTES.get(issuer.algorithm, 0)
    if len(text) < least:
        raise ConfigError(f"{file}: a secret for {issuer.algorithm} has {least} bytes or more")
    if b"PRIVATE KEY" in text:
        raise ConfigError(f"{file} is a private key: the service needs the public one only")
    try:
        return jwt.get_algorithm_by_name(issuer.algorithm).prepare_key(text)
    except (jwt.PyJWTError, ValueError, TypeError):
        raise ConfigError(f"{file} has no key for {issuer.algorithm}") from None
