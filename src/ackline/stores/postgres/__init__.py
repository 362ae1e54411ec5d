"""Jobs in PostgreSQL: beside your own tables, in your own transactions."""

from ackline.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
