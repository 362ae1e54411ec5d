"""How much a tenant may use: in the file of settings, for everybody and for some."""

from __future__ import annotations

from typing import Annotated

import msgspec

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Seats = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class Allowance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tenant may use; 0 is no limit, and what is not said is as for everybody."""

    requests: Amount | None = None
    """Requests in a second."""
    requests_burst: Amount | None = None
    """Requests at once, after a pause; as many as in a second unless said."""
    jobs: Amount | None = None
    """Jobs enqueued in a second."""
    jobs_burst: Amount | None = None
    """Jobs at once, after a pause; as many as in a second unless said."""
    queue_jobs: Count | None = None
    """Live jobs in one queue."""
    tenant_jobs: Count | None = None
    """Live jobs in all its queues."""
    streams: Seats | None = None
    """Streams that are open at once."""

    def over(self, general: Allowance) -> Allowance:
        """This where it says something, else what holds for everybody."""
        said = {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if getattr(self, name) is not None
        }
        return msgspec.structs.replace(general, **said)
