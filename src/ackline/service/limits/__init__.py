"""Limits for tenants and strangers, the same for all processes of one machine."""

from ackline.service.limits.limiter import Limiter

__all__ = ["Limiter"]
