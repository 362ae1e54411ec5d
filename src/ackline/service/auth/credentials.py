"""The credentials in the settings: issuers of JWTs, and API keys."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from ackline.core.limits import require_name
from ackline.service.auth.permissions import Scope
from ackline.service.auth.principal import Principal

SERVICE_TENANT = "ackline.service"
"""The service's own tenant, for keys, tickets and webhooks; no caller can belong to it."""

Algorithm = Literal[
    "EdDSA", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
    "HS256", "HS384", "HS512",
]  # fmt: skip

MAX_LEEWAY = 60.0


class Issuer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer whose JWTs are accepted: its keys, and the names of its claims.

    Set either `jwks` or `key_file`.
    """

    issuer: str
    """The exact value of `iss`."""
    audience: str
    """A value that `aud` must contain."""
    algorithm: Algorithm
    """The only algorithm that its JWTs may be signed with."""
    jwks: str | None = None
    """Its public keys: an https URL, or the path of a file."""
    key_file: str | None = None
    """A file with its public key (PEM), or with the shared secret of an HS algorithm."""
    tenants: tuple[str, ...] | None = None
    """The tenants that it may issue JWTs for; by default all."""
    operators: bool = False
    """Whether its JWTs may have the scope `operator`."""
    leeway: Annotated[float, msgspec.Meta(ge=0, le=MAX_LEEWAY)] = 10.0
    """Tolerated difference of its clock from ours, in seconds."""
    tenant_claim: str = "tenant"
    scope_claim: str = "scope"
    """The claim with the scopes: a list, or words separated by spaces."""
    queues_claim: str = "queues"
    """The claim with a list of queues; without it, all queues."""
    kinds_claim: str = "kinds"
    """The claim with a list of kinds; without it, all kinds."""

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience:
            raise ValueError("an issuer needs a name and an audience")
        if (self.jwks is None) == (self.key_file is None):
            raise ValueError(f"issuer {self.issuer}: set either jwks or key_file")
        if self.jwks is not None:
            _require_jwks(self, self.jwks)

    @property
    def shared_secret(self) -> bool:
        """Whether its key can both verify and create JWTs."""
        return self.algorithm.startswith("HS")


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API key: its hash, and what it allows. Created by `ackline token create`."""

    id: str
    hash: str
    """`sha256:` and the hex digest of the whole key."""
    name: str
    """Its name in the journal."""
    tenant: str
    scopes: frozenset[Scope]
    queues: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    operator: bool = False
    """Whether it may read the metrics of all tenants."""
    expires: Annotated[datetime.datetime, msgspec.Meta(tz=True)] | None = None

    def __post_init__(self) -> None:
        digits = self.hash.removeprefix(HASH_PREFIX)
        if digits == self.hash or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
            raise ValueError(
                f"the hash of API key {self.id} must be {HASH_PREFIX} followed by 64 hex digits"
            )
        require_tenant(self.tenant)

    def matches(self, key: str) -> bool:
        """Whether this is the key, compared in constant time."""
        return hmac.compare_digest(self.hash, hash_of(key))

    def expired(self, now: float) -> bool:
        """Whether it has expired."""
        return self.expires is not None and self.expires.timestamp() <= now

    def principal(self, until: float) -> Principal:
        """The principal that this key authenticates."""
        if self.expires is not None:
            until = min(until, self.expires.timestamp())
        return Principal(
            self.tenant,
            self.scopes,
            self.queues,
            self.kinds,
            name=self.name,
            operator=self.operator,
            until=until,
        )


HASH_PREFIX = "sha256:"


def hash_of(key: str) -> str:
    """The hash of an API key; keys have 256 random bits, so one round is enough."""
    return HASH_PREFIX + hashlib.sha256(key.encode()).hexdigest()


def require_tenant(tenant: Any) -> None:
    """Refuse a tenant that no caller may belong to."""
    require_name("tenant", tenant)
    if tenant == SERVICE_TENANT:
        raise ValueError(f"the tenant {SERVICE_TENANT} is the service's own")


def _require_jwks(issuer: Issuer, jwks: str) -> None:
    if issuer.shared_secret:
        raise ValueError(
            f"issuer {issuer.issuer}: {issuer.algorithm} has no public keys: "
            "set key_file instead of jwks"
        )
    parts = urlsplit(jwks)
    if "://" in jwks and parts.scheme != "https" and not _is_loopback_http(parts):
        raise ValueError(f"issuer {issuer.issuer}: jwks must be an https URL or the path of a file")


def _is_loopback_http(parts: Any) -> bool:
    try:
        return parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
