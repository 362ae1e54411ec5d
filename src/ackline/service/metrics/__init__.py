"""Metrics for Prometheus: requests, streams, job timings, loops, and the state of the queues."""

from ackline.service.metrics.http_requests import MeasureRequests
from ackline.service.metrics.metrics import Metrics
from ackline.service.metrics.queues import oldest_age

__all__ = ["MeasureRequests", "Metrics", "oldest_age"]
