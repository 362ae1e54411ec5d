"""The settings of webhooks: destinations, retries, concurrency."""

from __future__ import annotations

import ipaddress
from typing import Annotated

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0, le=300)]


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[webhooks]` of the settings file; times are in seconds."""

    networks: tuple[str, ...] = ()
    """Private networks that may be called, such as `10.1.0.0/16`."""
    plain_http: bool = False
    """Whether `http://` may be called, too."""
    ports: tuple[int, ...] = ()
    """The ports that may be called (default: all)."""
    ca_file: str | None = None
    """A file of CA certificates to trust instead of the system's."""
    timeout: Positive = 10.0
    """How long a receiver may take to answer."""
    backoff: tuple[Annotated[float, msgspec.Meta(ge=0)], ...] = (
        5, 300, 1800, 7200, 18000, 36000, 36000,
    )  # fmt: skip
    """Delays between attempts; after the last one a delivery goes to the DLQ."""
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 64
    """Maximum number of concurrent deliveries per process; a tenant gets at most a quarter."""
    receiver_concurrency: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 4
    """Maximum number of a tenant's concurrent deliveries to one host and port, in all processes."""
    keep_deliveries: Annotated[float, msgspec.Meta(ge=60)] = 86_400.0
    """How long completed deliveries are kept."""
    max_webhooks: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    """Maximum number of webhooks per tenant."""

    def __post_init__(self) -> None:
        for network in self.networks:
            ipaddress.ip_network(network)
