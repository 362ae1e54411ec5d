"""Jobs in Redis or Valkey: one server, a replicated pair, or a cluster."""

from ackline.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
