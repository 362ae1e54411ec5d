"""From a URL and a token to the store."""

from __future__ import annotations

import os

from ackline.core.clock import Clock
from ackline.core.errors import ConfigError
from ackline.stores.http.address import read_address
from ackline.stores.http.store import HttpStore

TOKEN_VARIABLE = "ACKLINE_TOKEN"
"""The environment variable with the token, if the caller passes none."""


def from_url(url: str, clock: Clock | None = None, token: str | None = None) -> HttpStore:
    """The store that a URL names: `http://` or `https://`, up to the service's base path."""
    if clock is not None:
        raise ConfigError("over HTTP, the clock is that of the service's store: leave it out")
    return HttpStore(read_address(url), token or os.environ.get(TOKEN_VARIABLE))
