"""Jobs that were enqueued in one store, passed on to another, each exactly once."""

from ackline.relay.relay import Relay, RelayStats

__all__ = ["Relay", "RelayStats"]
