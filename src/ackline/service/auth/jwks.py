"""The public keys of an issuer (JWKS), cached and refreshed."""

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
"""Seconds after which the next request for a key refreshes the JWKS."""

MIN_FETCH_INTERVAL = 30.0
"""Minimum seconds between two fetches, however many forged JWTs name unknown keys."""

MAX_AGE = 86_400.0
"""Seconds for which a JWKS is trusted while it cannot be refreshed."""

FETCH_TIMEOUT = 5.0
MAX_BYTES = 1024 * 1024

KEY_TYPES: dict[Algorithm, tuple[str, str | None]] = {
    "EdDSA": ("OKP", "Ed25519"),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
}
"""The type and the curve of the keys of each algorithm."""

MIN_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Minimum bytes of a shared secret; a shorter one can be guessed from a JWT."""

FETCH_ERRORS = (OSError, ValueError, RecursionError, http.client.HTTPException)
"""The errors that fetching and parsing a JWKS can raise."""


class KeysUnavailable(ProblemError):
    """The issuer's keys could not be fetched."""

    status = 503
    type = "auth-unavailable"


class KeySource(Protocol):
    """Finds the key with which a JWT claims to be signed."""

    async def find(self, kid: str | None) -> Any | None: ...


class StaticKey:
    """One key, whatever the `kid` of a JWT."""

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
        # The first request that finds the JWKS old refreshes it; the others use the old key.
        if not known or (self._age > REFRESH_AFTER and not self._fetching.locked()):
            await self._refetch(kid)
        if self._age > MAX_AGE:
            raise KeysUnavailable("the issuer's keys are unavailable: try again later")
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
                return  # another request has just refreshed it
            if self._monotonic() - self._tried_at < MIN_FETCH_INTERVAL:
                return
            self._tried_at = self._monotonic()
            try:
                text = await asyncio.to_thread(fetch, self._source)
                self._keys = parse_jwks(text, self._issuer.algorithm)
            except FETCH_ERRORS as error:
                # Not the error's text, which may quote the response.
                error_type = type(error).__name__
                logger.warning("cannot fetch the JWKS of %s: %s", self._issuer.issuer, error_type)
            else:
                self._fetched_at = self._monotonic()


def fetch(source: str) -> bytes:
    """Fetch a JWKS; redirects are not followed, because they may lead anywhere."""
    if "://" not in source:
        return Path(source).read_bytes()
    with _opener.open(source, timeout=FETCH_TIMEOUT) as response:
        text: bytes = response.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ValueError("too long")
    return text


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_request: Any, **_more: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def parse_jwks(text: bytes, algorithm: Algorithm) -> dict[str | None, Any]:
    """The keys of a JWKS for this algorithm, by `kid`."""
    document = msgspec.json.decode(text, type=dict[str, Any]).get("keys")
    if not isinstance(document, list):
        raise ValueError("not a set of keys")
    usable = [key for key in document if isinstance(key, dict) and _is_usable(key, algorithm)]
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


def _public_key(document: dict[str, Any], algorithm: Algorithm) -> Any:
    public = {name: value for name, value in document.items() if name != "d"}
    try:
        return jwt.PyJWK(public, algorithm).key
    except jwt.PyJWTError:
        raise ValueError("a key that cannot be read") from None


def key_source_for(issuer: Issuer) -> KeySource:
    """The keys of an issuer; a file that cannot be used is refused now."""
    if issuer.jwks is not None:
        if "://" not in issuer.jwks:
            _require_readable(issuer, issuer.jwks)
        return JwksKeys(issuer, issuer.jwks)
    return StaticKey(_static_key(issuer, Path(issuer.key_file or "")))


def _require_readable(issuer: Issuer, source: str) -> None:
    try:
        parse_jwks(fetch(source), issuer.algorithm)
    except FETCH_ERRORS:
        raise ConfigError(f"issuer {issuer.issuer}: {source} is not a readable JWKS") from None


def _static_key(issuer: Issuer, file: Path) -> Any:
    try:
        text = file.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"issuer {issuer.issuer}: {file}: {error.strerror}") from None
    minimum = MIN_SECRET_BYTES.get(issuer.algorithm, 0)
    if len(text) < minimum:
        raise ConfigError(f"{file}: a secret for {issuer.algorithm} needs {minimum} bytes or more")
    if b"PRIVATE KEY" in text:
        raise ConfigError(f"{file} is a private key: the service needs only the public one")
    try:
        return jwt.get_algorithm_by_name(issuer.algorithm).prepare_key(text)
    except (jwt.PyJWTError, ValueError, TypeError):
        raise ConfigError(f"{file} has no key for {issuer.algorithm}") from None
