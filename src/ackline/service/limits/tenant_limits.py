"""The limits of tenants, as the settings file sets them for all tenants and for single ones."""

from __future__ import annotations

from typing import Annotated

import msgspec

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
StreamCount = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class TenantLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a tenant; 0 means no limit, and None the same as for all tenants."""

    requests: Amount | None = None
    """Requests per second."""
    requests_burst: Amount | None = None
    """Requests in a burst; by default as many as per second."""
    jobs: Amount | None = None
    """Enqueued jobs per second."""
    jobs_burst: Amount | None = None
    """Jobs in a burst; by default as many as per second."""
    queue_jobs: Count | None = None
    """Live jobs in one queue."""
    tenant_jobs: Count | None = None
    """Live jobs in all its queues."""
    streams: StreamCount | None = None
    """Open streams."""
    waiting_queues: Count | None = None
    """Queues that its long polls and streams wait for, per process (default 50,000)."""

    def with_defaults(self, general: TenantLimits) -> TenantLimits:
        """These limits, with the general ones where they are None."""
        own = {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if getattr(self, name) is not None
        }
        return msgspec.structs.replace(general, **own)
