"""Jobs in a store that a service (`ackline serve`) keeps: the same verbs, over HTTP."""

from ackline.stores.http.store import HttpStore

__all__ = ["HttpStore"]
