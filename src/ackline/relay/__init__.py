"""The relay: moves jobs from a queue of one store to a queue of another, each exactly once."""

from ackline.relay.relay import Relay, RelayStats

__all__ = ["Relay", "RelayStats"]
