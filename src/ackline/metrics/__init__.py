"""Metrics and health of workers, for Prometheus and probes. Needs the extra `metrics`."""

from ackline.core.errors import MissingExtra

try:
    from ackline.metrics.endpoints import asgi_app
    from ackline.metrics.worker_metrics import WorkerMetrics
except ModuleNotFoundError as error:
    if error.name != "prometheus_client":
        raise
    raise MissingExtra("ackline.metrics (no module 'prometheus_client')", "metrics") from None

__all__ = ["WorkerMetrics", "asgi_app"]
