"""How much a tenant may use, as the settings file says for all tenants and for some."""

from __future__ import annotations

from typing import Annotated

import msgspec

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
StreamCount = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class TenantLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tenant may use; 0 means no limit, and None the same as for all tenants."""

    requests: Amount | None = None
    """Requests in a second."""
    requests_burst: Amount | None = None
    """Requests at once, after a pause; by default as many as in a second."""
    jobs: Amount | None = None
    """Jobs enqueued in a second."""
    jobs_burst: Amount | None = None
    """Jobs at once, after a pause; by default as many as in a second."""
    queue_jobs: Count | None = None
    """Live jobs in one queue."""
    tenant_jobs: Count | None = None
    """Live jobs in all its queues."""
    streams: StreamCount | None = None
    """Streams that are open at once."""
    waiting_queues: Count | None = None
    """Queue names that its waiting requests and streams have together, in each process.

    This one is 50,000 unless you say otherwise.
    """

    def with_defaults(self, general: TenantLimits) -> TenantLimits:
        """This allowance, with the general one where it is None."""
        own = {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if getattr(self, name) is not None
        }
        return msgspec.structs.replace(general, **own)
