"""What Prometheus reads: requests, streams, work, sweeps, and what the queues hold."""

from ackline.service.metrics.metrics import Metrics
from ackline.service.metrics.queues import age_of_first
from ackline.service.metrics.requests import Measured

__all__ = ["Measured", "Metrics", "age_of_first"]
