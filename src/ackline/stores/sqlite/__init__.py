"""Jobs in one SQLite file, shared by many processes: the embedded default."""

from ackline.stores.sqlite.store import SqliteStore, from_url

__all__ = ["SqliteStore", "from_url"]
