"""Verifies JWTs: signature, issuer, audience and expiry; and reads what they allow."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import jwt
import msgspec

from ackline.core.errors import ConfigError, InvalidName
from ackline.service.auth.credentials import Issuer, require_tenant
from ackline.service.auth.jwks import KeySource, key_source_for
from ackline.service.auth.permissions import Scope
from ackline.service.auth.principal import Principal
from ackline.service.http.problems import Unauthorized

MAX_TOKEN_LENGTH = 8192
REQUIRED = ("exp", "aud", "iss")
OPERATOR = "operator"

CACHE_SIZE = 10_000
CACHE_SECONDS = 30.0
"""Seconds for which a verified JWT is not verified again."""

MAX_NAME_LENGTH = 200

_DECODE_ERRORS = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)
"""The errors that decoding a malformed JWT can raise."""


class JwtVerifier:
    """Verifies the JWTs of the configured issuers."""

    def __init__(self, issuers: Iterable[Issuer]) -> None:
        self._issuers: dict[str, tuple[Issuer, KeySource]] = {}
        self._cache: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()
        for issuer in issuers:
            if issuer.issuer in self._issuers:
                raise ConfigError(f"issuer {issuer.issuer} is configured twice")
            self._issuers[issuer.issuer] = (issuer, key_source_for(issuer))

    def is_cached(self, token: str) -> bool:
        """Whether this JWT was verified recently."""
        digest = hashlib.sha256(token.encode()).digest()
        return self._cache.get(digest, (None, 0.0))[1] > time.time()

    async def verify(self, token: str) -> Principal:
        """The principal of this JWT, or `Unauthorized`."""
        if len(token) > MAX_TOKEN_LENGTH:
            raise Unauthorized("the token is too long")
        digest, now = hashlib.sha256(token.encode()).digest(), time.time()
        principal, valid_until = self._cache.get(digest, (None, 0.0))
        if principal is None or valid_until <= now:
            principal = await self._verify(token)
            self._add_to_cache(digest, principal, now)
        return principal

    def _add_to_cache(self, digest: bytes, principal: Principal, now: float) -> None:
        self._cache[digest] = (principal, min(now + CACHE_SECONDS, principal.until or 0.0))
        self._cache.move_to_end(digest)
        if len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)

    async def _verify(self, token: str) -> Principal:
        try:
            unverified = jwt.decode_complete(token, options={"verify_signature": False})
        except _DECODE_ERRORS:
            raise Unauthorized("this is neither a JWT nor an API key") from None
        found = self._issuers.get(str(unverified["payload"].get("iss")))
        if found is None:
            raise Unauthorized("the token's issuer is not accepted")
        issuer, keys = found
        header = unverified["header"]
        # Before any key is looked up: a JWT must not choose how it is verified.
        if header.get("alg") != issuer.algorithm:
            raise Unauthorized(f"tokens of this issuer are signed with {issuer.algorithm}")
        kid = header.get("kid")
        key = await keys.find(kid) if isinstance(kid, str | None) else None
        if key is None:
            raise Unauthorized("the token is signed with an unknown key")
        return _principal(issuer, _claims(token, key, issuer))


def _claims(token: str, key: Any, issuer: Issuer) -> dict[str, Any]:
    try:
        return jwt.decode(
            token,
            key,
            algorithms=[issuer.algorithm],
            audience=issuer.audience,
            issuer=issuer.issuer,
            leeway=issuer.leeway,
            options={"require": list(REQUIRED)},
        )
    except jwt.ExpiredSignatureError:
        raise Unauthorized("the token has expired") from None
    except jwt.InvalidAudienceError:
        raise Unauthorized("the token is for another audience") from None
    except jwt.MissingRequiredClaimError as error:
        raise Unauthorized(f"the token has no claim {error.claim!r}") from None
    except _DECODE_ERRORS:
        raise Unauthorized("the token is invalid") from None


def _principal(issuer: Issuer, claims: dict[str, Any]) -> Principal:
    scopes = _scopes(claims.get(issuer.scope_claim), issuer.scope_claim)
    return Principal(
        _tenant(issuer, claims),
        frozenset(Scope(word) for word in scopes if word in set(Scope)),
        _names(claims.get(issuer.queues_claim), issuer.queues_claim),
        _names(claims.get(issuer.kinds_claim), issuer.kinds_claim),
        name=str(claims.get("sub") or "token")[:MAX_NAME_LENGTH],
        operator=issuer.operators and OPERATOR in scopes,
        until=float(claims["exp"]) + issuer.leeway,
    )


def _tenant(issuer: Issuer, claims: dict[str, Any]) -> str:
    tenant = claims.get(issuer.tenant_claim)
    if tenant is None:
        raise Unauthorized(f"the token has no claim {issuer.tenant_claim!r}")
    try:
        require_tenant(tenant)
    except (InvalidName, ValueError):
        raise Unauthorized(
            f"the claim {issuer.tenant_claim!r} is not a valid tenant name"
        ) from None
    if issuer.tenants is not None and tenant not in issuer.tenants:
        raise Unauthorized(f"the token's issuer may not issue tokens for tenant {tenant!r}")
    return str(tenant)


def _scopes(claim: Any, name: str) -> frozenset[str]:
    """The scopes of a claim: words (RFC 8693) or a list; some may be of other services."""
    scopes = claim.split() if isinstance(claim, str) else claim
    return _names(scopes, name) or frozenset()


def _names(claim: Any, name: str) -> frozenset[str] | None:
    try:
        return msgspec.convert(claim, frozenset[str] | None)
    except msgspec.ValidationError:
        raise Unauthorized(f"the claim {name!r} of the token is not a list of names") from None
