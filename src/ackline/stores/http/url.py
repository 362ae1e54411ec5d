"""From a URL and a token to the store."""

from __future__ import annotations

import os

from ackline.clock import Clock
from ackline.errors import ConfigError
from ackline.stores.http.address import read_address
from ackline.stores.http.store import HttpStore

VARIABLE = "ACKLINE_TOKEN"
"""Where the token is, if nobody passes one."""


def from_url(url: str, clock: Clock | None = None, token: str | None = None) -> HttpStore:
    """A store of a URL: `http://` or `https://`, up to the service's base path."""
    if clock is not None:
        raise ConfigError("over HTTP, the clock is that of the service's store: leave it out")
    return HttpStore(read_address(url), token or os.environ.get(VARIABLE))
