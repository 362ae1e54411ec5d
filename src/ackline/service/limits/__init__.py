"""Limits for tenants and strangers, the same for all processes of one machine."""

from ackline.service.limits.limits import Limits

__all__ = ["Limits"]
