"""Jobs in the store of a service (`ackline serve`), over HTTP."""

from ackline.stores.http.store import HttpStore

__all__ = ["HttpStore"]
