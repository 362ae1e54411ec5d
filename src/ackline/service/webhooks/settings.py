"""What webhooks may reach, and how hard they try."""

from __future__ import annotations

import ipaddress
from typing import Annotated

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0, le=300)]


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[webhooks]` of the settings file; times are in seconds."""

    networks: tuple[str, ...] = ()
    """Networks that may be called although they are not public, such as `10.1.0.0/16`."""
    plain_http: bool = False
    """Whether `http://` may be called as well."""
    ports: tuple[int, ...] = ()
    """The only ports that may be called; by default all."""
    ca_file: str | None = None
    """A file with certificates to trust instead of the system's."""
    timeout: Positive = 10.0
    """How long a receiver may take to answer."""
    backoff: tuple[Annotated[float, msgspec.Meta(ge=0)], ...] = (
        5, 300, 1800, 7200, 18000, 36000, 36000,
    )  # fmt: skip
    """The waits between attempts; after the last one a delivery goes to the DLQ."""
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 64
    """Deliveries at once, per process; those of one tenant get a quarter of them at most."""
    receiver_concurrency: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 4
    """Deliveries at once to one host and port for one tenant, over all processes."""
    keep_deliveries: Annotated[float, msgspec.Meta(ge=60)] = 86_400.0
    """How long a delivery that was made is listed."""
    max_webhooks: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    """Webhooks of one tenant."""

    def __post_init__(self) -> None:
        for network in self.networks:
            ipaddress.ip_network(network)
