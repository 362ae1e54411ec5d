"""Events that nobody can read any more: a journal has dropped them."""

from __future__ import annotations

import msgspec


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one queue that were dropped before they were read."""

    queue: str
    after: str
    until: str
