"""The PostgreSQL store: jobs next to your own tables, in your own transactions."""

from ackline.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
